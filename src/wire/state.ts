import { isObject, type Json } from '../json.ts';
import { type Dict, dict, isEmpty, isShallow } from './dict.ts';
import type { Meta } from './message.ts';
import { DRAFTS, type Era, NAMES, type Scope } from './names.ts';
import type { Problem, ProblemCode } from './problem.ts';

/** A part of a jar update that was not taken; without a `name` the whole scope was dropped. */
export interface StateProblem extends Problem {
  readonly scope?: Scope;
  readonly name?: string;
}

/** Jar state as a message carries it. `null` as a value deletes the name. */
export interface State {
  readonly session?: Dict;
  readonly server?: Dict;
}

/** {@link State} as read from a peer, and what was not taken. */
export interface StateReading extends State {
  readonly problems?: readonly StateProblem[];
}

/** More names than this in one scope of one message are not read at all. */
export const MAX_NAMES = 10_000;

/** Both scopes, in the order in which they are read and written. */
export const SCOPES: readonly Scope[] = ['session', 'server'];
const NOTHING: StateReading = Object.freeze({});

// Weakest first: where a peer writes a name in two places, the later place wins.
const LEGACY_KEYS: Readonly<Record<Scope, readonly string[]>> = {
  session: [DRAFTS.state.session, NAMES.legacy.state.session],
  server: [DRAFTS.state.server, NAMES.legacy.state.server],
};
const MODERN_KEY = NAMES.modern.state.key;

/**
 * Reads jar state from the `_meta` of a request or a result: both eras, both spellings of the older keys.
 * What does not fit is left out and listed; nothing throws.
 *
 * @example
 * ```ts
 * const { session } = readState(result._meta);
 * session?.['Cart Contents'];
 * ```
 */
export function readState(meta: unknown): StateReading {
  if (!isObject(meta)) return NOTHING;
  let reading: { session?: Dict; server?: Dict; problems?: StateProblem[] } | undefined;
  const add = (scope: Scope, source: unknown, where: string) => {
    reading ??= {};
    const problems: StateProblem[] = [];
    const into = reading[scope] ?? dict();
    if (copy(source, into, scope, where, problems)) reading[scope] = into;
    if (problems.length > 0) reading.problems = [...(reading.problems ?? []), ...problems];
  };
  for (const scope of SCOPES) {
    for (const key of LEGACY_KEYS[scope]) if (meta[key] !== undefined) add(scope, meta[key], key);
  }
  const modern = meta[MODERN_KEY];
  if (isObject(modern)) {
    for (const scope of SCOPES) {
      if (modern[scope] !== undefined) add(scope, modern[scope], `${MODERN_KEY}.${scope}`);
    }
  } else if (modern !== undefined) {
    reading ??= {};
    reading.problems = [...(reading.problems ?? []), { problem: 'wrong-type', where: MODERN_KEY }];
  }
  return reading ?? NOTHING;
}

/** True where at least one entry was taken over. */
function copy(source: unknown, into: Dict, scope: Scope, where: string, problems: StateProblem[]): boolean {
  const refuse = (problem: ProblemCode, name?: string) =>
    void problems.push({ problem, where, scope, ...(name === undefined ? {} : { name }) });
  if (!isObject(source)) {
    refuse('wrong-type');
    return false;
  }
  const names = Object.keys(source);
  if (names.length > MAX_NAMES) {
    refuse('too-many');
    return false;
  }
  let taken = false;
  for (const name of names) {
    const value = source[name];
    if (value === undefined) continue;
    if (!isShallow(value)) {
      refuse('too-deep', name);
      continue;
    }
    into[name] = value as Json;
    taken = true;
  }
  return taken;
}

/**
 * Writes jar state into a `_meta` fragment, or nothing where there is nothing: an empty scope is never sent.
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

/**
 * State after an update: names it does not mention stay, `null` removes, anything else replaces the whole value.
 * Neither argument is changed.
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
