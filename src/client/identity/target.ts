import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { ValiseError } from '../../core/errors.ts';
import type { TransportLike } from '../../core/instrument.ts';
import { sha256 } from '../../core/sha256.ts';
import type { StdioCommand } from '../../edge/stdio-client.ts';
import { decidingEnv, type StdioTarget, stdioName } from './stdio-name.ts';

/** The server that a connection leads to. Sessions and credentials are tied to it. */
export type Target =
  | { readonly kind: 'http'; readonly url: URL }
  | StdioTarget
  | { readonly kind: 'unknown' };

/** A server as an application names it, for a transport that does not reveal its server. */
export type NamedServer = string | URL | StdioCommand;

/** Returns the target of a transport, or the one that the application names. Both SDK majors keep it under the same names. */
export function targetOf(transport: TransportLike, server?: NamedServer): Target {
  if (![transport?.start, transport?.send, transport?.close].every((one) => typeof one === 'function')) {
    throw new ValiseError('invalid-argument', 'valise.connect() was called without a server.', {
      next: 'Pass a URL, a command such as { command, args }, or a transport.',
    });
  }
  if (!Object.isExtensible(transport)) {
    throw new ValiseError(
      'invalid-argument',
      'The transport is frozen, so Valise cannot read its messages.',
      {
        next: 'Do not freeze or seal it: a client sets its own handlers on it too.',
      },
    );
  }
  if (server !== undefined) return targetNamed(server);
  const known = transport as TransportLike & {
    readonly _url?: unknown;
    readonly _serverParams?: StdioCommand;
  };
  if (known._url instanceof URL) return { kind: 'http', url: known._url };
  const { _serverParams: command } = known;
  return typeof command?.command === 'string' ? targetNamed(command) : { kind: 'unknown' };
}

/** Returns the target of a named server. */
export function targetNamed(server: NamedServer): Target {
  if (typeof server === 'string' || server instanceof URL) return { kind: 'http', url: webAddress(server) };
  const { command, args = [], cwd = process.cwd(), env } = server;
  return { kind: 'stdio', command, args: [...args], cwd: resolved(cwd), env: decidingEnv(env, args) };
}

/** Returns the stable name of a target for store keys: the full URL, or the command as it would be run. */
export function targetKey(target: Target): string {
  switch (target.kind) {
    case 'http': {
      const { origin, pathname, search } = target.url;
      return `${origin}${pathname}${search}`;
    }
    case 'stdio':
      return `stdio:${JSON.stringify([target.command, ...target.args, placeOf(target)])}`;
    case 'unknown':
      return 'unknown:';
  }
}

/** Returns the folder. If variables make the command another program, adds that program's name. */
function placeOf(target: StdioTarget): string | readonly string[] {
  if (target.env === undefined) return target.cwd;
  const name = stdioName(target, false);
  return name === stdioName({ ...target, env: undefined }, false) ? target.cwd : [target.cwd, name];
}

function resolved(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}

/** Parses the URL of a server. The URL may contain a secret, so no error repeats it. */
export function webAddress(url: string | URL): URL {
  if (URL.canParse(String(url)) && /^https?:/i.test(String(url))) return new URL(url);
  throw new ValiseError('invalid-argument', 'The address of a server is not an http: or https: URL.', {
    next: 'Pass the full URL, such as https://example.com/mcp.',
  });
}

/** The owner of a connection: the server's full URL, and the user if the host tells users apart. */
export interface ConnectionId {
  readonly target: string;
  readonly principal: string;
}

type Kind = 'connection' | 'credentials' | 'account';

/**
 * Returns the store key for data of a connection. It uses digests, so that readers of the store's keys do not learn which
 * connections they belong to.
 */
export function keyOf(kind: Kind, { target, principal }: ConnectionId): string {
  return `${prefixOf(kind, principal)}${sha256(target).slice(0, 24)}`;
}

/** Returns the prefix of all keys of a principal. */
export function prefixOf(kind: Kind, principal: string): string {
  return `${kind}/${sha256(principal).slice(0, 24)}/`;
}

/** Returns a short name for a secret: enough to tell two apart, but not to use one. */
export function fingerprint(secret: string): string {
  return sha256(secret).slice(0, 12);
}
