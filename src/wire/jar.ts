import { type Dict, dict, isEmpty, isObject, isShallow, type Json } from '../core/json.ts';
import { type Meta, type Result, withoutMeta } from '../core/message.ts';
import { DRAFTS, type Era, NAMES, type Scope } from './names.ts';
import type { Problem } from './problem.ts';

/** A part of a jar update that was rejected. Without a `name`, the whole scope was dropped. */
export interface StateProblem extends Problem {
  readonly scope?: Scope;
  readonly name?: string;
}

/** Jar state as carried in a message. A `null` value deletes the name. */
export interface State {
  readonly session?: Dict;
  readonly server?: Dict;
}

/** The {@link State} read from a peer, and the parts that were rejected. */
export interface StateReading extends State {
  readonly problems?: readonly StateProblem[];
}

/** The maximum number of names per scope of one message. A scope with more is not read at all. */
export const MAX_NAMES = 10_000;

/** Both scopes, in the order in which they are read and written. */
export const SCOPES: readonly Scope[] = ['session', 'server'];
const NOTHING: StateReading = Object.freeze({});

const MODERN = NAMES.modern.state.key;
const SESSION = NAMES.legacy.state.session;
const SERVER = NAMES.legacy.state.server;
const SESSION_HTTP = DRAFTS.state.session;
const SERVER_HTTP = DRAFTS.state.server;

/**
 * Reads jar state from the `_meta` of a request or a result, in both eras and both spellings of the older keys. Invalid
 * parts are left out and listed as problems. Never throws.
 *
 * @example
 * ```ts
 * const { session } = readState(result._meta);
 * session?.['Cart Contents'];
 * ```
 */
export function readState(meta: unknown): StateReading {
  if (!isObject(meta)) return NOTHING;
  // The keys are read one by one because this runs on every message, and most messages carry no state.
  const session = meta[SESSION];
  const server = meta[SERVER];
  const sessionHttp = meta[SESSION_HTTP];
  const serverHttp = meta[SERVER_HTTP];
  const modern = meta[MODERN];
  const legacy = session !== undefined || server !== undefined;
  if (!legacy && modern === undefined && sessionHttp === undefined && serverHttp === undefined)
    return NOTHING;
  const reading: Draft = {};
  // The order is weakest first: if a peer writes a name in two places, the later place wins.
  take(reading, 'session', sessionHttp, SESSION_HTTP);
  take(reading, 'server', serverHttp, SERVER_HTTP);
  take(reading, 'session', session, SESSION);
  take(reading, 'server', server, SERVER);
  if (isObject(modern)) {
    take(reading, 'session', modern.session, `${MODERN}.session`);
    take(reading, 'server', modern.server, `${MODERN}.server`);
  } else if (modern !== undefined) refuse(reading, { problem: 'wrong-type', where: MODERN });
  return reading;
}

interface Draft {
  session?: Dict;
  server?: Dict;
  problems?: StateProblem[];
}

function take(reading: Draft, scope: Scope, source: unknown, where: string): void {
  if (source === undefined) return;
  if (!isObject(source)) {
    refuse(reading, { problem: 'wrong-type', where, scope });
    return;
  }
  const names = Object.keys(source);
  if (names.length > MAX_NAMES) {
    refuse(reading, { problem: 'too-many', where, scope });
    return;
  }
  for (const name of names) {
    const value = source[name];
    if (value === undefined) continue;
    if (!isShallow(value)) {
      refuse(reading, { problem: 'too-deep', where, scope, name });
      continue;
    }
    reading[scope] ??= dict();
    reading[scope][name] = value as Json;
  }
}

function refuse(reading: Draft, problem: StateProblem): void {
  (reading.problems ??= []).push(problem);
}

/**
 * Writes jar state into a `_meta` fragment. Returns undefined if there is no state: an empty scope is never sent.
 *
 * @example
 * ```ts
 * const _meta = { ...params._meta, ...writeState(era, { session: { 'Coupon Code': 'XYZZY' } }) };
 * ```
 */
export function writeState(era: Era, state: { readonly [S in Scope]?: Meta | undefined }): Meta | undefined {
  const names = NAMES[era].state;
  let fragment: Record<string, unknown> | undefined;
  for (const scope of SCOPES) {
    const values = state[scope];
    if (values === undefined || isEmpty(values)) continue;
    fragment ??= {};
    fragment[names[scope]] = values;
  }
  return fragment && names.key !== undefined ? { [names.key]: fragment } : fragment;
}

const KEYS = [MODERN, SESSION, SERVER, SESSION_HTTP, SERVER_HTTP, NAMES.modern.state.attributes];

/** Whether the `_meta` of a message has jar state or attributes, in any spelling. */
export function carriesState(meta: Meta | undefined): boolean {
  if (meta !== undefined) for (const key of KEYS) if (meta[key] !== undefined) return true;
  return false;
}

/** Returns the result without its jar state and attributes, in any spelling. A jar that stored them hides them from the host. */
export function withoutState(result: Result): Result {
  return withoutMeta(result, KEYS);
}

/**
 * Returns the state after an update. Names that the update does not mention stay, `null` removes a name, and any other
 * value replaces the whole value. Modifies neither argument.
 */
export function applyState(held: Readonly<Dict> | undefined, update: Readonly<Dict> | undefined): Dict {
  const next = dict();
  for (const name in held) next[name] = held[name] as Json;
  for (const name in update) {
    const value = update[name] as Json;
    if (value === null) delete next[name];
    else next[name] = value;
  }
  return next;
}

/** Methods whose target is one field of their params. */
const TARGETS: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'resources/subscribe': 'uri',
  'resources/unsubscribe': 'uri',
};

/**
 * Returns the path of a request that method scopes are matched against: its method, followed by its target if it has
 * one. The cursor of a list is not part of the path, so every page has the scope of its list.
 *
 * @example
 * ```ts
 * methodPath('tools/call', { name: 'view_cart' }); // 'tools/call/view_cart'
 * ```
 */
export function methodPath(method: string, params?: unknown): string {
  if (!isObject(params)) return method;
  const field = Object.hasOwn(TARGETS, method) ? TARGETS[method] : undefined;
  const target = field === undefined ? completionTarget(method, params.ref) : params[field];
  return typeof target === 'string' ? `${method}/${target}` : method;
}

/** A prompt and a resource may share a name, so the kind of the reference is part of the path. */
function completionTarget(method: string, ref: unknown): string | undefined {
  if (method !== 'completion/complete' || !isObject(ref)) return undefined;
  if (ref.type === 'ref/prompt' && typeof ref.name === 'string') return `ref/prompt/${ref.name}`;
  if (ref.type === 'ref/resource' && typeof ref.uri === 'string') return `ref/resource/${ref.uri}`;
  return undefined;
}

/** Whether `scope` is the path itself or a prefix of it that ends at a slash. */
export function scopeCovers(scope: string, path: string): boolean {
  if (!path.startsWith(scope)) return scope.endsWith('/') && path === scope.slice(0, -1);
  return path.length === scope.length || scope.endsWith('/') || path[scope.length] === '/';
}

/**
 * Whether state with this `method-scope` is sent with the request. To match several scopes against one request, compute
 * its {@link methodPath} once and call {@link scopeCovers}.
 *
 * @example
 * ```ts
 * methodScopeMatches('tools', 'tools/list'); // true
 * methodScopeMatches('tools', 'toolsmith/x'); // false
 * ```
 */
export function methodScopeMatches(scope: string, method: string, params?: unknown): boolean {
  return scopeCovers(scope, methodPath(method, params));
}
