import type { Json } from '../../json.ts';
import { isKid, kidOf } from '../../seal/token.ts';
import {
  type Attributes,
  type AttributesReading,
  MAX_AGE,
  type ProblemCode,
  readAttributes,
  readState,
  type Scope,
  type StateProblem,
} from '../../wire/index.ts';
import type { ClientEventSource } from '../events.ts';
import { normalScope } from '../identity.ts';
import type { Bag } from './bag.ts';
import { enforce } from './enforce.ts';
import type { Item } from './item.ts';
import { detailOf, told } from './problem-detail.ts';
import type { Quotas } from './quotas.ts';
import type { Seat } from './seat.ts';
import { NONE } from './stored.ts';
import type { Tally } from './tally.ts';
import type { JarRefusal } from './types.ts';

/** The parts of the jar that are needed to apply state. */
export interface Absorber {
  readonly events: ClientEventSource;
  readonly quotas: Quotas;
  readonly tally: Tally;
}

/** The origin of a result. */
export interface Origin {
  readonly seat: Seat;
  /** The session that the request was sent in. */
  readonly session: Bag;
  /** The jar's epoch when the request was sent. */
  readonly epoch: number;
  /** The texts of values whose numbers change when parsed, by scope and name, as JSON. */
  readonly texts?: string | undefined;
}

/**
 * Applies the state that a result sets, in the order in which results arrive. Rejects invalid state with an event and never
 * throws, so that the result itself is always delivered. Returns the bags to store.
 */
export function absorb(meta: unknown, origin: Origin, jar: Absorber): Set<Bag> | undefined {
  const state = readState(meta);
  if (!state.session && !state.server && !state.problems) return undefined;
  return new Absorption(meta, origin, jar).take(state, readAttributes(meta));
}

class Absorption {
  readonly #meta: unknown;
  readonly #origin: Origin;
  readonly #jar: Absorber;
  readonly #texts: Texts;
  readonly #now = Date.now();
  readonly #grown = new Set<Bag>();
  readonly #unsaved = new Set<Bag>();

  constructor(meta: unknown, origin: Origin, jar: Absorber) {
    this.#meta = meta;
    this.#origin = origin;
    this.#jar = jar;
    this.#texts = origin.texts === undefined ? {} : (JSON.parse(origin.texts) as Texts);
  }

  take(state: ReturnType<typeof readState>, attributes: AttributesReading): Set<Bag> {
    for (const problem of state.problems ?? []) this.#refuseProblem(problem);
    const problemFor = finder(attributes.problems);
    for (const scope of ['session', 'server'] as const) {
      const update = state[scope];
      if (update === undefined) continue;
      for (const name of Object.keys(update)) {
        // In a stream, a number that is too large arrives as null.
        const exact = this.#textOf(scope, name);
        const value = exact === undefined ? (update[name] as Json) : (JSON.parse(exact) as Json);
        const given = attributes[scope]?.[name] ?? NONE;
        const problem = problemFor(scope, name);
        if (value === null) this.#remove(scope, name, given);
        else if (problem) this.#refuseProblem({ ...problem, scope, name });
        else this.#set(scope, name, value, given);
      }
    }
    for (const bag of enforce(this.#grown, this.#jar)) this.#unsaved.add(bag);
    return this.#unsaved;
  }

  #set(scope: Scope, name: string, value: Json, given: Attributes): void {
    const attributes = this.#fit(scope, name, given);
    if (!attributes) return;
    const bag = this.#bagFor(scope, attributes);
    if (!this.#isOpen(bag, scope, name) || !this.#mayChange(scope, name, value, attributes)) return;
    const exact = this.#textOf(scope, name);
    const { exact: isExact, identity } = this.#origin.seat;
    // A peer in this process has exactly the same numbers.
    if (!isExact && !identity.passing && !isSafe(value)) {
      this.#refuse(
        'bad-value',
        'It has a number that this transport cannot send back as it came.',
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
    const item: Item = {
      // Copies the value, because the application may change the result it receives.
      value: typeof value === 'object' ? (JSON.parse(text) as Json) : value,
      ...(exact !== undefined && { text: exact }),
      ...(identity.secure && { secure: true }),
      size,
      from: identity.name,
      setAt: this.#now,
      expiresAt: this.#now + (attributes.maxAge ?? MAX_AGE) * 1000,
      attributes,
    };
    if (scope === 'server') this.#leaveOthers(bag, name);
    const held = bag.items.get(name);
    if (held && held.from !== item.from) this.#tellGone(scope, name, held);
    if (held && isSame(held, item, text)) {
      bag.renew(name, { ...item, storedUntil: held.storedUntil ?? held.expiresAt });
    } else {
      bag.set(name, item);
      this.#unsaved.add(bag);
      this.#grown.add(bag);
    }
    this.#jar.events.emit('set', { server: item.from, scope, key: name, size });
  }

  #textOf(scope: Scope, name: string): string | undefined {
    const own = this.#texts[scope];
    return own && Object.hasOwn(own, name) ? own[name] : undefined;
  }

  /**
   * Removes the entry from the server's other bags. Overwriting also replaces the attributes, so state that was valid for
   * another domain is no longer.
   */
  #leaveOthers(bag: Bag, name: string): void {
    const { bags, identity } = this.#origin.seat;
    for (const other of bags) {
      if (other === bag || other.items.get(name)?.from !== identity.name) continue;
      other.remove(name);
      this.#unsaved.add(other);
    }
  }

  #remove(scope: Scope, name: string, given: Attributes): void {
    const { seat, session } = this.#origin;
    const own = scope === 'session' ? [session] : seat.bags;
    const only = given.serverScope === undefined ? undefined : `.${normalScope(given.serverScope)}`;
    for (const bag of own) {
      if (only !== undefined && bag.server !== only && bag.server.startsWith('.')) continue;
      if (!bag.items.has(name)) {
        this.#removeUnseen(bag, name);
        continue;
      }
      if (!this.#isOpen(bag, scope, name) || !this.#mayChange(scope, name, null, given)) continue;
      this.#tellGone(scope, name, bag.items.get(name));
      bag.remove(name);
      this.#unsaved.add(bag);
    }
  }

  /** Removes an entry that another process may have set since this one last read the store. */
  #removeUnseen(bag: Bag, name: string): void {
    if (bag.over || bag.wasClearedAfter(this.#origin.epoch, name)) return;
    if (bag.removeUnseen(name)) this.#unsaved.add(bag);
  }

  /** Returns the attributes with a normalized scope. Returns undefined if the server may not set that scope. */
  #fit(scope: Scope, name: string, given: Attributes): Attributes | undefined {
    if (given.serverScope === undefined) return given;
    const { scopes, name: server } = this.#origin.seat.identity;
    const serverScope = normalScope(given.serverScope);
    if (scopes.includes(serverScope)) return { ...given, serverScope };
    this.#refuse('server-scope', `${serverScope} is not for ${server} to set.`, scope, name);
    return undefined;
  }

  #bagFor(scope: Scope, { serverScope }: Attributes): Bag {
    const { seat, session } = this.#origin;
    if (scope === 'session') return session;
    const wide = serverScope !== undefined && seat.bags.find((bag) => bag.server === `.${serverScope}`);
    return wide || (seat.bags[0] as Bag);
  }

  /** Returns false if the response is too late: the session is over, or the jar was cleared meanwhile. */
  #isOpen(bag: Bag, scope: Scope, name: string): boolean {
    if (bag.over) {
      this.#refuse('session-over', 'The session of the request has ended.', scope, name);
      return false;
    }
    if (!bag.wasClearedAfter(this.#origin.epoch, name)) return true;
    this.#refuse('cleared', 'The request was sent before its state was cleared.', scope, name);
    return false;
  }

  /** Returns false if this server may not change the existing entry over this connection. */
  #mayChange(scope: Scope, name: string, value: Json, { serverScope }: Attributes): boolean {
    const { seat, session } = this.#origin;
    const { identity, bags } = seat;
    const held = (scope === 'session' ? [session] : bags).flatMap((bag) => bag.items.get(name) ?? []);
    if (identity.secure === false && held.some(({ secure }) => secure)) {
      this.#refuse('insecure', 'It was set over https, and is not changed over http.', scope, name);
      return false;
    }
    // A value only for the server itself takes nothing from other servers.
    if (value !== null && serverScope === undefined) return true;
    const isOthers = held.some((item) => item.from !== identity.name && isSealed(item.value));
    if (!isOthers || isSealed(value)) return true;
    this.#refuse('sibling', 'Another server of the domain has set it, and sealed it.', scope, name);
    return false;
  }

  /** Emits `deleted` with the name of the server that set the entry, which may be another one of the same domain. */
  #tellGone(scope: Scope, key: string, item: Item | undefined): void {
    if (item) this.#jar.events.emit('deleted', { server: item.from, scope, key, by: 'server' });
  }

  #refuseProblem(problem: StateProblem): void {
    const reason = REASONS[problem.problem] ?? 'wrong-type';
    this.#refuse(reason, detailOf(problem, this.#meta), problem.scope, problem.name);
  }

  #refuse(reason: JarRefusal, detail: string, scope?: Scope, key?: string): void {
    this.#jar.events.emit('refused', {
      server: this.#origin.seat.identity.name,
      ...(scope !== undefined && { scope }),
      ...(key !== undefined && { key: told(key) }),
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
function finder(problems: readonly StateProblem[] = []) {
  const found = new Map<string, StateProblem>();
  for (const one of problems) found.set(place(one.scope, one.name), one);
  return (scope: Scope, name: string): StateProblem | undefined =>
    found.size === 0
      ? undefined
      : (found.get(place(undefined, undefined)) ??
        found.get(place(scope, undefined)) ??
        found.get(place(scope, name)));
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

function place(scope: Scope | undefined, name: string | undefined): string {
  return JSON.stringify([scope ?? null, name ?? null]);
}

/** Whether an item repeats the existing one, and its new expiry is too close to the stored one to be worth a write. */
function isSame(held: Item, item: Item, text: string): boolean {
  if (held.size !== item.size || held.from !== item.from) return false;
  const { maxAge, serverScope, methodScope } = held.attributes;
  return (
    maxAge === item.attributes.maxAge &&
    serverScope === item.attributes.serverScope &&
    methodScope === item.attributes.methodScope &&
    item.expiresAt - (held.storedUntil ?? held.expiresAt) < (item.expiresAt - item.setAt) / 10 &&
    (held.text ?? JSON.stringify(held.value)) === text
  );
}
