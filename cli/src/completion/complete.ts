import type { Argument, Command } from 'commander';
import type { ClientValise } from 'mcp-valise/client';
import { fileOf } from 'mcp-valise/internal';
import { openFor } from '../connection/connect.ts';
import { nameOfTarget, parseKept } from '../connection/target.ts';
import { type ConnectOptions, isThere, storeUrl } from '../options/options.ts';
import { clean, print } from '../output/output.ts';
import { isSameTarget, type KeptOffer, keptOffers } from './offered.ts';

/** The hidden command that the scripts of `valise completion` call. */
export const COMPLETE = '__complete';

/** Sources of completions in the store, by argument name. */
const KNOWN: Readonly<Record<string, (known: Known) => Promise<readonly string[]>>> = {
  target: targets,
  tool: async (known) => (await offerOf(known))?.tools ?? [],
  name: async (known) => (await offerOf(known))?.prompts ?? [],
  uri: async (known) => (await offerOf(known))?.uris ?? [],
  id: async ({ valise }) => (await valise.pending.list()).map(({ id }) => id),
  session: async ({ valise }) =>
    (await valise.sessions.kept()).flatMap(({ id, label }) => (label === undefined ? [id] : [label, id])),
  server: async ({ valise }) => valise.jar.list().map(({ server }) => server),
};

/** Whether values of an argument are completed from the store. */
export function isCompleted(argument: Argument): boolean {
  return Object.hasOwn(KNOWN, argument.name());
}

/** The context in which completions are looked up. */
interface Known {
  readonly valise: ClientValise;
  readonly options: Pick<ConnectOptions, 'store' | 'keyFile' | 'principal'>;
  /** The arguments before the one that is being typed. */
  readonly before: readonly string[];
}

/**
 * `valise __complete -- WORD…`: prints completions of the last word, one per line. It reads the store and contacts no
 * server.
 */
export function completeCommand(program: Command): void {
  program
    .command(COMPLETE, { hidden: true })
    .description('print what the last word may become; for the scripts of valise completion')
    .argument('[words...]', 'the words of the line, after valise')
    .addHelpText('after', `\nExample:\n  valise ${COMPLETE} -- pending answer Xb`)
    .action(async (words: readonly string[]) => {
      // Errors are ignored, because a shell has no place to show them during completion.
      const found = await candidates(program, words).catch(() => []);
      for (const each of found) print(each);
    });
}

async function candidates(program: Command, words: readonly string[]): Promise<readonly string[]> {
  const typed = words.at(-1) ?? '';
  const { argument, options, before } = lineOf(program, words.slice(0, -1));
  const find = argument && KNOWN[argument];
  if (!find || typed.startsWith('-')) return [];
  const file = fileOf(storeUrl(options.store));
  if (file !== undefined && !isThere(file)) return [];
  const valise = await openFor(options);
  try {
    const all = await find({ valise, options, before });
    return [...new Set(all)].filter((each) => each.startsWith(typed) && clean(each) === each).sort();
  } finally {
    await valise.close();
  }
}

/** Returns which argument comes next on a line, the arguments before it, and the options that select the store. */
function lineOf(
  program: Command,
  words: readonly string[],
): Pick<Known, 'options' | 'before'> & { readonly argument: string | undefined } {
  let command = program;
  const before: string[] = [];
  const given: Record<string, string> = {};
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string;
    const sub = before.length === 0 ? command.commands.find((each) => each.name() === word) : undefined;
    if (sub) command = sub;
    else if (word.startsWith('-') && word.length > 1) {
      const [name, inline] = word.split('=', 2) as [string, string?];
      const leaf = withDefault(command);
      const option = leaf.options.find(({ long, short }) => long === name || short === name);
      if (!option?.required) continue;
      // The user is typing the value of an option, which is not in the store.
      if (inline === undefined && at + 1 >= words.length) return { argument: undefined, options: {}, before };
      given[option.attributeName()] = inline ?? (words[++at] as string);
    } else before.push(word);
  }
  const argument = withDefault(command).registeredArguments[before.length]?.name();
  return { argument, options: given, before };
}

/** Returns the `list` subcommand if the command has one, because it is the default. */
function withDefault(command: Command): Command {
  return command.commands.find((each) => each.name() === 'list' && command.parent) ?? command;
}

async function offerOf({ options, before }: Known): Promise<KeptOffer | undefined> {
  const [target] = before;
  if (target === undefined) return undefined;
  return (await keptOffers(options)).find((each) => isSameTarget(each.target, target));
}

async function targets({ valise, options }: Known): Promise<readonly string[]> {
  const kept = [
    ...(await valise.connections.list()).map(({ target }) => target),
    ...(await valise.sessions.kept()).map(({ target }) => target),
    ...(await valise.pending.list()).map(({ server }) => server),
  ].flatMap((name) => (name === 'unknown:' ? [] : [nameOfTarget(parseKept(name))]));
  const listed = (await keptOffers(options)).map(({ target }) => target);
  // A target with redacted secrets cannot be used.
  return [...kept, ...listed].filter((name) => !name.includes('…'));
}
