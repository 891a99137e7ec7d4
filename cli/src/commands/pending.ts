import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import type { PendingRound } from 'mcp-valise/client';
import { ValiseError } from 'mcp-valise/client';
import { type Continued, redactUrls } from 'mcp-valise/internal';
import { answersTo, patternOf, wordsOf } from '../ask/question.ts';
import { argumentsOf } from '../bridge/shapes.ts';
import { type Connected, connectTo, openKept } from '../connection/connect.ts';
import { type CliTarget, nameOfKept, parseKept, parseTarget } from '../connection/target.ts';
import { CommandError } from '../errors.ts';
import { followUpOptions } from '../options/follow-up.ts';
import { byId } from '../options/id-prefix.ts';
import { answerOption, type ConnectOptions, connectOptions, storeOption } from '../options/options.ts';
import { printResult } from '../output/content.ts';
import { EXIT, exitCodeOf, explain, type SetExit, whatOnly } from '../output/exit.ts';
import { print, printJson, printTable, shellWord, until, when } from '../output/output.ts';
import { findPending, goOn, optionsFor, tellPending } from '../output/pending.ts';

type StoreOptions = Pick<ConnectOptions, 'store' | 'keyFile' | 'principal' | 'json'>;

/** `valise pending [list|answer|drop]`: calls that wait for an answer. */
export function pendingCommand(program: Command, exit: SetExit): void {
  const pending = program
    .command('pending')
    .description('list, answer or drop calls that wait for an answer')
    .addHelpText(
      'after',
      '\nExamples:\n  valise pending\n  valise pending answer Xb3… --answer resolution=Fixed',
    );
  ofStore(pending.command('list', { isDefault: true }).description('list the calls that wait')).action(
    (options: StoreOptions) => list(options),
  );
  answerOption(
    connectOptions(
      pending
        .command('answer')
        .description('answer the question and continue the call; without --answer, on a terminal, it asks')
        .argument('<id>', 'which one: its id, or how its id begins')
        .argument('[target]', 'where the server is now, where that has changed'),
    ),
  ).action(async (id: string, target: string | undefined, options: ConnectOptions) =>
    exit(await answer(id, target, options)),
  );
  ofStore(
    pending
      .command('drop')
      .description('forget a call; the server gets no answer')
      .argument('<id>', 'which one: its id, or how its id begins'),
  ).action(async (id: string, options: StoreOptions) => exit(await drop(id, options)));
}

function ofStore(command: Command): Command {
  return storeOption(command)
    .option('--principal <id>', 'whose calls are meant')
    .option('--json', 'print as JSON on one line');
}

async function list(options: StoreOptions): Promise<void> {
  const rounds = await rest(options);
  if (options.json) printJson({ pending: rounds.map(asAsked) });
  else {
    printTable(
      ['ID', 'SINCE', 'EXPIRES', 'SERVER', 'CALL', 'QUESTION', 'ANSWER'],
      rounds.map((round) => [
        round.id,
        when(round.since.getTime()),
        until(round.expiresAt),
        nameOfKept(round.server),
        callName(round),
        round.questions.map(wordsOf).join(' / '),
        round.questions.flatMap(answersTo).map(patternOf).join(' ') || '-',
      ]),
      'Nothing waits for an answer.',
      { idColumn: 0 },
    );
  }
}

async function rest(options: StoreOptions): Promise<readonly PendingRound[]> {
  const valise = await openKept(options);
  try {
    return await valise.pending.list();
  } finally {
    await valise.close();
  }
}

/** Returns the round without earlier answers and carried state, which the stored call includes and nobody should read. */
function asAsked({ call, ...round }: PendingRound): PendingRound {
  return {
    ...round,
    server: redactUrls(round.server),
    call: call && { ...call, params: argumentsOf(call.params) },
  };
}

function callName({ call }: PendingRound): string {
  return String(call?.params?.['name'] ?? call?.params?.['uri'] ?? call?.method ?? '-');
}

async function answer(wanted: string, given: string | undefined, options: ConnectOptions): Promise<number> {
  const round = byId(wanted, await rest(options));
  if (!round) {
    const { store, keyFile, principal } = options;
    const again = followUpOptions({
      ...(store && { store }),
      ...(keyFile && { keyFile }),
      ...(principal && { principal }),
    });
    const words = ['valise', 'pending', ...again];
    throw new ValiseError('not-found', `Nothing waits under the id ${wanted}.`, {
      next: `See what does: ${words.map(shellWord).join(' ')}`,
    });
  }
  const { id } = round;
  const connected = await connectFor(round, given, options);
  const { pending } = connected.valise;
  try {
    const { client } = connected;
    let next: Continued = await pending.answer(id, undefined, { client });
    // The same answers may fit the next question too.
    while (!next.done) next = await pending.answer(id, undefined, { client });
    if (options.json) printJson(next.result);
    else printResult(next.result);
    await endNameless(round, connected);
    return next.result['isError'] === true ? EXIT.failed : EXIT.ok;
  } catch (error) {
    const left = await findPending(id, pending);
    if (left && !isOurs(error)) return tellPending(left, options, { why: error, target: given });
    throw new CommandError('not-answered', explain(error).replace(/\.?$/, '.'), {
      next: left
        ? `The call still waits: ${goOn(id, options, given)}`
        : 'The call is over, and nothing is pending. Make it again.',
    });
  } finally {
    await connected.close();
  }
}

async function connectFor(
  round: PendingRound,
  given: string | undefined,
  options: ConnectOptions,
): Promise<Connected> {
  const target = given === undefined ? targetOf(round) : parseTarget(given);
  try {
    return await connectTo(target, optionsFor(round, options));
  } catch (error) {
    const mayLack = target.kind === 'stdio' && options.env.length === 0;
    if (!mayLack || exitCodeOf(error) === EXIT.usage) throw error;
    throw new CommandError('not-answered', whatOnly(error), {
      next: `The call still waits. Any variables that it was given when it asked are not kept; to hand on yours: ${goOn(round.id, options, given)} --env NAME`,
    });
  }
}

/** Deletes a session without a name, which was created for this call alone. */
async function endNameless({ session }: PendingRound, { valise, client }: Connected): Promise<void> {
  if (session && session.label === undefined)
    await valise
      .sessions(client)
      .delete(session.id)
      .catch(() => undefined);
}

/** Error codes that mean that the answer was never sent. */
const OURS = new Set<unknown>(['answer-unfit', 'request-failed', 'already-done']);

function isOurs(error: unknown): boolean {
  return OURS.has((error as { readonly code?: unknown } | undefined)?.code);
}

/** Returns the target at which the call was made. */
function targetOf({ id, server }: PendingRound): CliTarget {
  const next = `Say where the server is now: valise pending answer ${id} TARGET`;
  if (server === 'unknown:')
    throw new CommandError('no-target', 'It is not known where the server is that asked this.', { next });
  const target = parseKept(server);
  const folder = target.kind === 'stdio' ? target.command.cwd : undefined;
  if (folder === undefined || existsSync(folder)) return target;
  const what = `The folder ${folder}, in which the server was started, is not there any more.`;
  throw new CommandError('no-target', what, { next });
}

async function drop(wanted: string, options: StoreOptions): Promise<number> {
  const valise = await openKept(options);
  try {
    const { id } = byId(wanted, await valise.pending.list()) ?? { id: wanted };
    const dropped = await valise.pending.drop(id);
    if (options.json) printJson({ dropped });
    else print(dropped ? 'dropped' : `Nothing waits under the id ${id}.`);
    return dropped ? EXIT.ok : EXIT.failed;
  } finally {
    await valise.close();
  }
}
