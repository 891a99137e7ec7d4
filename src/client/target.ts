import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { ValiseError } from '../errors.ts';
import type { StdioCommand } from '../link/stdio-client.ts';
import type { TransportLike } from '../link/transport.ts';
import { decidingEnv, type Env } from './deciding-env.ts';
import { stdioName } from './stdio-name.ts';
import { webAddress } from './web-address.ts';

/** The server that a connection leads to. Sessions and credentials are tied to it. */
export type Target =
  | { readonly kind: 'http'; readonly url: URL }
  | {
      readonly kind: 'stdio';
      readonly command: string;
      readonly args: readonly string[];
      readonly cwd: string;
      /** The given variables that may decide which program it is. */
      readonly env?: Env | undefined;
    }
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
      'The transport is frozen, so that its messages cannot be reached.',
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
function placeOf(target: Extract<Target, { readonly kind: 'stdio' }>): string | readonly string[] {
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
