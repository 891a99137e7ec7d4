import type { ClientValise } from 'mcp-valise/client';
import { ValiseError } from 'mcp-valise/client';
import { type Identity, identify, isIdentity, type NoIdentity, targetNamed } from 'mcp-valise/internal';
import { readAnnounced } from 'mcp-valise/wire';
import { clean, remark } from './output.ts';
import type { CliTarget } from './target.ts';

/** How many pieces of state that were not kept are told one by one: a server may send any number. */
const TOLD = 10;

/** Says on stderr what Valise tells as events: that something could be better, and that state was not kept. */
export function tellEvents({ events }: Pick<ClientValise, 'events'>): void {
  let count = 0;
  const say = (key: string | undefined, server: string, what: string): void => {
    count += 1;
    const name = key === undefined ? 'state' : `state ${JSON.stringify(key)}`;
    if (count <= TOLD) remark(`valise: ${clean(`${name} of ${server} ${what}`)}`);
    else if (count === TOLD + 1) remark(`valise: more state of ${clean(server)} was not kept.`);
  };
  events.on('evicted', ({ server, key, quota }) =>
    say(key, server, `had to go: the jar is full (${quota}).`),
  );
  events.on('warning', ({ code, what, next }) => {
    // Whoever writes --allow-local has read in its help what this says.
    if (code !== 'local-state') remark(`valise: ${clean(`${what} ${next}`)}`);
  });
  events.on('refused', ({ server, key, reason, detail }) => {
    if (reason === 'server') {
      sayUnkept({ name: server, refused: detail });
      return;
    }
    say(key, server, `was not kept: ${detail}`);
  });
}

/** Says that nothing is kept for a server that announces state, and how to change that: it may be why a call has failed. */
export function tellUnkept(
  target: CliTarget,
  { allowLocal }: { readonly allowLocal?: boolean | undefined },
  capabilities: unknown,
): void {
  const who = whoIs(target, allowLocal);
  if (!isIdentity(who) && readAnnounced(capabilities).state) sayUnkept(who);
}

/** Says why a server that is a command is being ended; that it has, the call that waits hears by itself. */
export function tellOverlong(error: Error): void {
  if (error instanceof ValiseError && error.code === 'message-too-large')
    remark(`valise: ${clean(error.what)}`);
}

const unkept = new Set<string>();

/** For such a server nothing is taken at all: that is said once, and not of every key. */
function sayUnkept({ name, refused }: NoIdentity): void {
  if (unkept.has(name)) return;
  unkept.add(name);
  const next = 'For development, use --allow-local to keep it all the same.';
  remark(`valise: ${clean(`no state is kept for ${name}: ${refused} ${next}`)}`);
}

/** Who the server behind a target of the command line is. */
export function whoIs(target: CliTarget, allowLocal?: boolean): Identity | NoIdentity {
  return identify(targetNamed(target.kind === 'http' ? target.url : target.command), { allowLocal });
}
