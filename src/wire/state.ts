import { isObject, type Json } from '../json.ts';
import { withoutMeta } from './copy.ts';
import { type Dict, dict, isEmpty, isShallow } from './dict.ts';
import type { Meta, Result } from './message.ts';
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
