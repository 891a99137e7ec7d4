import type { ClientValise } from 'mcp-valise/client';
import { ValiseError } from 'mcp-valise/client';
import {
  type Identity,
  identify,
  isIdentity,
  type NoIdentity,
  readAnnounced,
  targetNamed,
} from 'mcp-valise/internal';
import type { CliTarget } from '../connection/target.ts';
import { clean, remark } from './output.ts';

/** How many rejected entries are reported one by one, because a server may send any number. */
const TOLD = 10;

/** Prints the events of a Valise to stderr: warnings, and state that was not kept. */
export function printEvents(valise: Pick<ClientValise, 'on'>): void {
  let count = 0;
  const say = (key: string | undefined, server: string, what: string): void => {
    count += 1;
    const name = key === undefined ? 'state' : `state ${JSON.stringify(key)}`;
    if (count <= TOLD) remark(`valise: ${clean(`${name} of ${server} ${what}`)}`);
    else if (count === TOLD + 1) remark(`valise: more state of ${clean(server)} was not kept.`);
  };
  valise.on('evicted', ({ server, key, quota }) =>
    say(key, server, `had to go: the jar is full (${quota}).`),
  );
  valise.on('warning', ({ code, what, next }) => {
    // The help of --allow-local already says this.
    if (code !== 'local-state') remark(`valise: ${clean(`${what} ${next}`)}`);
  });
  valise.on('refused', ({ server, key, reason, detail }) => {
    if (reason === 'server') {
      printUnkept({ name: server, refused: detail });
      return;
    }
    say(key, server, `was not kept: ${detail}`);
  });
}

/**
 * Reports that nothing is kept for a server that announces state, and how to change that, because it may be why a call
 * failed.
 */
export function warnIfUnkept(
  target: CliTarget,
  { allowLocal }: { readonly allowLocal?: boolean | undefined },
  capabilities: unknown,
): void {
  const who = identityOf(target, allowLocal);
  if (!isIdentity(who) && readAnnounced(capabilities).state) printUnkept(who);
}

/** Reports why a command is being ended. The waiting call fails on its own. */
export function printOverlong(error: Error): void {
  if (error instanceof ValiseError && error.code === 'too-large') remark(`valise: ${clean(error.what)}`);
}

const unkept = new Set<string>();

/** Reports once per server, not per key, because nothing at all is kept for it. */
function printUnkept({ name, refused }: NoIdentity): void {
  if (unkept.has(name)) return;
  unkept.add(name);
  const next = 'For development, use --allow-local to keep it all the same.';
  remark(`valise: ${clean(`no state is kept for ${name}: ${refused} ${next}`)}`);
}

/** Returns the identity of the server behind a target. */
export function identityOf(target: CliTarget, allowLocal?: boolean): Identity | NoIdentity {
  return identify(targetNamed(target.kind === 'http' ? target.url : target.command), { allowLocal });
}
