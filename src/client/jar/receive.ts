import { isObject, type Json } from '../../core/json.ts';
import { isKid, kidOf } from '../../seal/token.ts';
import {
  ATTRIBUTE_RULES,
  type Attributes,
  type AttributesReading,
  MAX_AGE,
  MAX_DEPTH,
  MAX_NAMES,
  type ProblemCode,
  readAttributes,
  readState,
  type Scope,
  type StateProblem,
  type StateReading,
} from '../../wire/index.ts';
import { normalScope } from '../identity/identity.ts';
import { type Entry, type EntrySet, type JarView, NONE, shortened } from './entries.ts';
import { enforceQuotas, type Limited } from './quotas.ts';
import type { JarRefusal } from './types.ts';

/** The origin of a result. */
export interface Origin {
  readonly view: JarView;
  /** The session that the request was sent in. */
  readonly session: EntrySet;
  /** The jar's epoch when the request was sent. */
  readonly epoch: number;
  /** The request, in words. */
  readonly by?: string | undefined;
  /** The agreed version of `dev.valise/state`, `MAJOR.MINOR`. Absent means 1.0. */
  readonly version?: string | undefined;
  /** The texts of values whose numbers change when parsed, by scope and name, as JSON. */
  readonly texts?: string | undefined;
}

/**
 * Applies the state that a result sets, in the order in which results arrive. Rejects invalid state with an event and never
 * throws, so that the result itself is always delivered. Returns the sets to store.
 */
export function receive(meta: unknown, origin: Origin, jar: Limited): Set<EntrySet> {
  return new Update(meta, origin, jar).apply(readState(meta), readAttributes(meta));
}

/** The state that one result sets. */
class Update {
  readonly #meta: unknown;
  readonly #origin: Origin;
  readonly #jar: Limited;
  readonly #texts: Texts;
  readonly #now = Date.now();
  readonly #grown = new Set<EntrySet>();
  readonly #unsaved = new Set<EntrySet>();

  constructor(meta: unknown, origin: Origin, jar: Limited) {
    this.#meta = meta;
    this.#origin = origin;
    this.#jar = jar;
    this.#texts = origin.texts === undefined ? {} : (JSON.parse(origin.texts) as Texts);
  }

  apply(state: StateReading, attributes: AttributesReading): Set<EntrySet> {
    for (const problem of state.problems ?? []) this.#refuseProblem(problem);
    const problemFor = problemFinder(attributes.problems);
    for (const scope of ['session', 'server'] as const) {
      const update = state[scope];
      if (update === undefined) continue;
      for (const name of Object.keys(update)) {
        // In a stream, a number that is too large arrives as null.
        const exact = this.#textOf(scope, name);
        const value = exact === undefined ? (update[name] as Json) : (JSON.parse(exact) as Json);
        const own = attributes[scope]?.[name] ?? NONE;
        const problem = problemFor(scope, name);
        if (value === null) this.#remove(scope, name, own);
        else if (problem) this.#refuseProblem({ ...problem, scope, name });
        else this.#set(scope, name, value, own);
      }
    }
    for (const set of enforceQuotas(this.#grown, this.#jar)) this.#unsaved.add(set);
    return this.#unsaved;
  }

  #set(scope: Scope, name: string, value: Json, received: Attributes): void {
    const attributes = this.#fit(scope, name, received);
    if (!attributes) return;
    const set = this.#setFor(scope, attributes);
    if (!this.#isOpen(set, scope, name) || !this.#mayChange(scope, name, value, attributes)) return;
    const exact = this.#textOf(scope, name);
    const { exact: isExact, identity } = this.#origin.view;
    // A peer in this process has exactly the same numbers.
    if (!isExact && !identity.passing && !isSafe(value)) {
      this.#refuse(
        'bad-value',
        'It has a number that this transport cannot send back unchanged.',
        scope,
        name,
      );
      return;
    }
    const text = exact ?? JSON.stringify(value);
    const size = Buffer.byteLength(name) + Buffer.byteLength(text);
    const { bytesPerKey } = this.#jar.quotas;
    if (size > bytesPerKey) {
      this.#refuse('too-large', `It takes ${size} bytes; ${bytesPerKey} are allowed.`, scope, name);
      return;
    }
    const entry: Entry = {
      // Copies the value, because the application may change the result it receives.
      value: typeof value === 'object' ? (JSON.parse(text) as Json) : value,
      ...(exact !== undefined && { text: exact }),
      ...(identity.secure && { secure: true }),
      size,
      from: identity.name,
      setAt: this.#now,
      expiresAt: this.#now + (attributes.maxAge ?? MAX_AGE) * 1000,
      attributes,
      ...(this.#origin.by !== undefined && { by: this.#origin.by }),
      ...(this.#origin.version !== undefined && { version: this.#origin.version }),
    };
    if (scope === 'server') this.#removeFromOthers(set, name);
    const existing = set.entries.get(name);
    if (existing && existing.from !== entry.from) this.#emitDeleted(scope, name, existing);
    if (existing && isSame(existing, entry, text)) {
      set.renew(name, { ...entry, storedUntil: existing.storedUntil ?? existing.expiresAt });
    } else {
      set.set(name, entry);
      this.#unsaved.add(set);
      this.#grown.add(set);
    }
    this.#jar.events.emit('set', { server: entry.from, scope, key: name, size });
  }

  #textOf(scope: Scope, name: string): string | undefined {
    const own = this.#texts[scope];
    return own && Object.hasOwn(own, name) ? own[name] : undefined;
  }

  /**
   * Removes the entry from the server's other sets. Overwriting also replaces the attributes, so state that was valid for
   * another domain is no longer.
   */
  #removeFromOthers(set: EntrySet, name: string): void {
    const { sets, identity } = this.#origin.view;
    for (const other of sets) {
      if (other === set || other.entries.get(name)?.from !== identity.name) continue;
      other.remove(name);
      this.#unsaved.add(other);
    }
  }

  #remove(scope: Scope, name: string, attributes: Attributes): void {
    const { view, session } = this.#origin;
    const own = scope === 'session' ? [session] : view.sets;
    const only = attributes.serverScope === undefined ? undefined : `.${normalScope(attributes.serverScope)}`;
    for (const set of own) {
      if (only !== undefined && set.server !== only && set.server.startsWith('.')) continue;
      const entry = set.entries.get(name);
      if (entry) {
        if (!this.#isOpen(set, scope, name) || !this.#mayChange(scope, name, null, attributes)) continue;
        this.#emitDeleted(scope, name, entry);
      } else if (set.isOver || set.wasClearedAfter(this.#origin.epoch, name)) continue;
      // An entry that is unknown here may have been set by another process since this one last read the store.
      set.remove(name);
      this.#unsaved.add(set);
    }
  }

  /** Returns the attributes with a normalized scope. Returns undefined if the server may not set that scope. */
  #fit(scope: Scope, name: string, attributes: Attributes): Attributes | undefined {
    if (attributes.serverScope === undefined) return attributes;
    const { scopes, name: server } = this.#origin.view.identity;
    const serverScope = normalScope(attributes.serverScope);
    if (scopes.includes(serverScope)) return { ...attributes, serverScope };
    this.#refuse('server-scope', `${server} may not set the scope ${serverScope}.`, scope, name);
    return undefined;
  }

  #setFor(scope: Scope, { serverScope }: Attributes): EntrySet {
    const { view, session } = this.#origin;
    if (scope === 'session') return session;
    const wide = serverScope !== undefined && view.sets.find((set) => set.server === `.${serverScope}`);
    return wide || (view.sets[0] as EntrySet);
  }

  /** Returns false if the response is too late: the session is over, or the jar was cleared meanwhile. */
  #isOpen(set: EntrySet, scope: Scope, name: string): boolean {
    if (set.isOver) {
      this.#refuse('session-over', 'The session of the request has ended.', scope, name);
      return false;
    }
    if (!set.wasClearedAfter(this.#origin.epoch, name)) return true;
    this.#refuse('cleared', 'The request was sent before its state was cleared.', scope, name);
    return false;
  }

  /** Returns false if this server may not change the existing entry over this connection. */
  #mayChange(scope: Scope, name: string, value: Json, { serverScope }: Attributes): boolean {
    const { view, session } = this.#origin;
    const { identity, sets } = view;
    const existing = (scope === 'session' ? [session] : sets).flatMap((set) => set.entries.get(name) ?? []);
    if (identity.secure === false && existing.some(({ secure }) => secure)) {
      this.#refuse('insecure', 'It was set over https, and is not changed over http.', scope, name);
      return false;
    }
    // A value only for the server itself takes nothing from other servers.
    if (value !== null && serverScope === undefined) return true;
    const isOthers = existing.some(({ from, value: other }) => from !== identity.name && isSealed(other));
    if (!isOthers || isSealed(value)) return true;
    this.#refuse('sibling', 'Another server of the domain has set it, and sealed it.', scope, name);
    return false;
  }

  /** Emits `deleted` with the name of the server that set the entry, which may be another one of the same domain. */
  #emitDeleted(scope: Scope, key: string, { from }: Entry): void {
    this.#jar.events.emit('deleted', { server: from, scope, key, by: 'server' });
  }

  #refuseProblem(problem: StateProblem): void {
    const reason = REASONS[problem.problem] ?? 'wrong-type';
    this.#refuse(reason, detailOf(problem, this.#meta), problem.scope, problem.name);
  }

  #refuse(reason: JarRefusal, detail: string, scope?: Scope, key?: string): void {
    this.#jar.events.emit('refused', {
      server: this.#origin.view.identity.name,
      ...(scope !== undefined && { scope }),
      ...(key !== undefined && { key: shortened(key) }),
      reason,
      detail,
    });
  }
}

const REASONS: { readonly [Code in ProblemCode]?: JarRefusal } = {
  'wrong-type': 'wrong-type',
  'bad-value': 'bad-value',
  'too-many': 'too-many',
  'too-deep': 'too-deep',
};

/** Finds the problem with a name's attributes. A problem with all attributes, or with those of a scope, applies to each name. */
function problemFinder(problems: readonly StateProblem[] = []) {
  const found = new Map<string, StateProblem>();
  for (const one of problems) found.set(pathOf(one.scope, one.name), one);
  return (scope: Scope, name: string): StateProblem | undefined =>
    found.size === 0
      ? undefined
      : (found.get(pathOf(undefined, undefined)) ??
        found.get(pathOf(scope, undefined)) ??
        found.get(pathOf(scope, name)));
}

type Texts = { readonly [S in Scope]?: { readonly [name: string]: string } };

/** Whether a value has the shape of a token that Valise sealed. */
function isSealed(value: Json): boolean {
  const kid = kidOf(value, Number.POSITIVE_INFINITY);
  return kid !== undefined && isKid(kid);
}

/** Whether all numbers of a value are finite and small enough that parsing cannot have changed them. */
function isSafe(value: Json): boolean {
  if (typeof value === 'number') return Number.isFinite(value) && Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  return typeof value !== 'object' || value === null || Object.values(value).every(isSafe);
}

function pathOf(scope: Scope | undefined, name: string | undefined): string {
  return JSON.stringify([scope ?? null, name ?? null]);
}

/** Whether an entry repeats the existing one, and its new expiry is too close to the stored one to be worth a write. */
function isSame(existing: Entry, entry: Entry, text: string): boolean {
  if (existing.size !== entry.size || existing.from !== entry.from || existing.version !== entry.version)
    return false;
  const { maxAge, serverScope, methodScope } = existing.attributes;
  return (
    maxAge === entry.attributes.maxAge &&
    serverScope === entry.attributes.serverScope &&
    methodScope === entry.attributes.methodScope &&
    entry.expiresAt - (existing.storedUntil ?? existing.expiresAt) < (entry.expiresAt - entry.setAt) / 10 &&
    (existing.text ?? JSON.stringify(existing.value)) === text
  );
}

/** Describes what was wrong with state, the limit it exceeded, and what was received. Never includes text from the server. */
function detailOf(problem: StateProblem, meta: unknown): string {
  const { where } = problem;
  if (problem.problem === 'too-deep') return `It is nested deeper than ${MAX_DEPTH} levels, in ${where}.`;
  const came = valueAt(problem, meta);
  if (problem.problem === 'too-many')
    return `${Object.keys(came ?? {}).length} names came in ${where}; ${MAX_NAMES} are allowed.`;
  const attribute = where.slice(where.lastIndexOf('.') + 1);
  const rule = ATTRIBUTE_RULES[attribute];
  return rule === undefined
    ? `${attribute === 'attributes' ? 'Its attributes' : where} must be an object; ${described(came)} came.`
    : `Its ${attribute} must be ${rule}; ${described(came)} came.`;
}

/** Returns the value at the location of a problem: a key of `_meta`, the scope in it, and an attribute of a name in that. */
function valueAt({ where, name }: StateProblem, meta: unknown): unknown {
  const holder = isObject(meta) ? meta : {};
  const keys = Object.keys(holder).filter((each) => where === each || where.startsWith(`${each}.`));
  const key = keys.reduce((longest, each) => (each.length > longest.length ? each : longest), '');
  const [scope, attribute] = where.slice(key.length + 1).split('.');
  const path = [key, scope, attribute && name, attribute === 'attributes' ? '' : attribute];
  let value: unknown = holder;
  for (const step of path) if (step) value = isObject(value) ? value[step] : undefined;
  return value;
}

function described(value: unknown): string {
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string') return `a text of ${value.length} characters`;
  if (Array.isArray(value)) return 'a list';
  return value === null ? 'null' : `something of type ${typeof value}`;
}
