import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { ValiseError } from '../errors.ts';
import type { StdioCommand } from '../link/stdio-client.ts';
import type { TransportLike } from '../link/transport.ts';
import { webAddress } from './web-address.ts';

/** Where a connection leads: what sessions and credentials are tied to. */
export type Target =
  | { readonly kind: 'http'; readonly url: URL }
  | {
      readonly kind: 'stdio';
      readonly command: string;
      readonly args: readonly string[];
      readonly cwd: string;
    }
  | { readonly kind: 'unknown' };

/** A server as an application names it, for a transport that cannot be asked. */
export type NamedServer = string | URL | StdioCommand;

/** Reads where a transport leads, unless the application says so. Both SDK majors keep it under the same names. */
export function targetOf(transport: TransportLike, server?: NamedServer): Target {
  if (typeof transport?.send !== 'function' || typeof transport.start !== 'function') {
    throw new ValiseError('no-transport', 'valise.connect() was called without a transport.', {
      next: 'Call valise.connect(client, transport), or valise.connect(client, valise.http(url)).',
    });
  }
  if (typeof server === 'string' || server instanceof URL) return { kind: 'http', url: webAddress(server) };
  const known = transport as TransportLike & {
    readonly _url?: unknown;
    readonly _serverParams?: {
      readonly command?: unknown;
      readonly args?: readonly string[];
      readonly cwd?: string;
    };
  };
  if (!server && known._url instanceof URL) return { kind: 'http', url: known._url };
  const { command, args = [], cwd } = server ?? known._serverParams ?? {};
  if (typeof command === 'string')
    return { kind: 'stdio', command, args: [...args], cwd: resolved(cwd ?? process.cwd()) };
  return { kind: 'unknown' };
}

/** The stable name of a target, for keys in a store: the full URL, or the command as it would be run. */
export function targetKey(target: Target): string {
  switch (target.kind) {
    case 'http': {
      const { origin, pathname, search } = target.url;
      return `${origin}${pathname}${search}`;
    }
    case 'stdio':
      return `stdio:${JSON.stringify([target.command, ...target.args, target.cwd])}`;
    case 'unknown':
      return 'unknown:';
  }
}

function resolved(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}
