import { isIPv6 } from 'node:net';
import { isObject } from '../core/json.ts';
import { sha256 } from '../core/sha256.ts';
import { type Principal, principalKey } from './principal.ts';
import type { Caller } from './quota.ts';

/** The facts about a request that the option `caller` receives. */
export interface CallerFacts {
  /** The remote address of the connection. It is known if `valise.http` receives Node's requests. */
  readonly address: string | undefined;
  /** Returns a header of the HTTP request, or undefined if there is none. */
  header(name: string): string | undefined;
}

/** Everything that identifies the caller of a request. */
interface Facts extends CallerFacts {
  readonly principal: Principal | undefined;
  readonly transportSession: string | undefined;
}

/** Returns a name that tells one caller from another. */
export type TellCaller = (facts: CallerFacts) => string | undefined;

/**
 * Returns the caller whose share of a limit a request counts toward. It never grants access.
 *
 * It is the principal. Without one it is what the author's function returns, else the remote address, else the connection or
 * the transport's session.
 */
export function callerOf(facts: Facts, tell: TellCaller | undefined): Caller {
  return { name: nameOf(facts, tell), isAnonymous: facts.principal === undefined };
}

function nameOf(facts: Facts, tell: TellCaller | undefined): string | undefined {
  const { address, header, transportSession } = facts;
  const principal = principalKey(facts.principal);
  if (principal !== undefined) return named('principal', principal);
  const told = tell?.({ address, header });
  if (typeof told === 'string' && told !== '') return named('told', told);
  if (address !== undefined) return named('address', network(address));
  return transportSession === undefined ? undefined : named('transport', transportSession);
}

/** Returns a header of the request that a message came with. SDK v1 passes the headers, v2 the request itself. */
export function headerOf(extra: unknown, name: string): string | undefined {
  if (!isObject(extra)) return undefined;
  const { request, requestInfo } = extra;
  const { headers } = (isObject(request) ? request : isObject(requestInfo) ? requestInfo : {}) as {
    readonly headers?: unknown;
  };
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const value = isObject(headers) ? headers[name.toLowerCase()] : undefined;
  return typeof value === 'string' ? value : undefined;
}

/** Returns the network of an address: for IPv6 the first 64 bits, since one host has all addresses below them. */
function network(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined || !isIPv6(address)) return mapped ?? address;
  const [head = '', tail] = (address.split('%', 1)[0] as string).split('::') as [string, string?];
  const groups = head === '' ? [] : head.split(':');
  const rest = tail ? tail.split(':') : [];
  const missing = tail === undefined ? 0 : Math.max(0, 8 - groups.length - rest.length);
  const all = [...groups, ...Array<string>(missing).fill('0'), ...rest];
  return all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':');
}

function named(kind: string, name: string): string {
  return `${kind}/${sha256(name)}`;
}
