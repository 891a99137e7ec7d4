import { AsyncLocalStorage } from 'node:async_hooks';
import { ValiseError, type ValiseErrorOptions } from '../core/errors.ts';

/** The caller whose share of a limit something counts toward. */
export interface Caller {
  /** Undefined if nothing tells the caller from others. Then only the limits in total apply. */
  readonly name: string | undefined;
  readonly isAnonymous: boolean;
}

/** An amount that may be held at a time. */
export interface Share {
  readonly count: number;
  readonly bytes: number;
}

/** The limits of a {@link Quota}. Omitted ones are unlimited. */
export interface QuotaLimits {
  readonly perCaller: Partial<Share>;
  readonly total: Partial<Share>;
  /** The part of the total that anonymous callers get, so that they cannot lock out principals. @defaultValue 1 */
  readonly anonymousPart?: number;
}

/** An item to count. */
export interface Held {
  /** Replaces what was counted under the same key. @defaultValue a key of its own */
  readonly key?: string | symbol;
  /** @defaultValue 0 */
  readonly bytes?: number;
  /** For how long, in seconds. @defaultValue until it is released */
  readonly ttl?: number;
}

/** The limit that was reached. */
export type Exceeded = `${'caller' | 'anonymous' | 'total'}-${keyof Share}`;

interface Entry extends Caller {
  readonly bytes: number;
  /** When it ends, in milliseconds since 1970. */
  readonly until: number;
}

/** The default share of one caller: a tenth of the total, and at least 100. */
export function shareOf(total: number): number {
  return Math.min(total, Math.max(100, Math.floor(total / 10)));
}

/** Runs work outside of any request, since a timer would retain the request that it was created in. */
const outside = AsyncLocalStorage.snapshot();

/** How often expired entries are dropped, in milliseconds. */
const SWEEP = 15_000;
const NOTHING: Share = { count: 0, bytes: 0 };

/**
 * Counts what this process holds for its callers.
 *
 * Comparing and counting is one step, so that two requests never share the last place. Other instances count for themselves.
 */
export class Quota {
  readonly #limits: QuotaLimits;
  readonly #dropped: ((key: string) => void) | undefined;
  readonly #entries = new Map<string | symbol, Entry>();
  readonly #callers = new Map<string, { count: number; bytes: number }>();
  readonly #anonymous = { count: 0, bytes: 0 };
  readonly #all = { count: 0, bytes: 0 };
  #timer: NodeJS.Timeout | undefined;

  /** Creates the quota. `dropped` is called for every named entry that has expired. */
  constructor(limits: QuotaLimits, dropped?: (key: string) => void) {
    this.#limits = limits;
    this.#dropped = dropped;
  }

  /** The number of items that are counted. */
  get count(): number {
    return this.#all.count;
  }

  /**
   * Counts something, or returns the limit that it would exceed and counts nothing.
   *
   * On success it returns a function that undoes the count, so that what was counted under the same key before counts again.
   */
  take(caller: Caller, { key = Symbol(), bytes = 0, ttl }: Held = {}): (() => void) | Exceeded {
    const before = this.#entries.get(key);
    this.release(key);
    const entry: Entry = { ...caller, bytes, until: ttl === undefined ? Infinity : Date.now() + ttl * 1000 };
    const exceeded = this.#exceeded(entry) && this.#afterSweep(entry);
    if (exceeded) {
      if (before) this.#put(key, before);
      return exceeded;
    }
    this.#put(key, entry);
    if (ttl !== undefined) this.#schedule();
    return () => {
      if (this.#entries.get(key) !== entry) return;
      this.release(key);
      if (before) this.#put(key, before);
    };
  }

  /** Releases what was counted under a key. */
  release(key: string | symbol): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    this.#add(entry, -1);
  }

  #put(key: string | symbol, entry: Entry): void {
    this.#entries.set(key, entry);
    this.#add(entry, 1);
  }

  #afterSweep(entry: Entry): Exceeded | undefined {
    this.#sweep();
    return this.#exceeded(entry);
  }

  #exceeded({ name, isAnonymous, bytes }: Entry): Exceeded | undefined {
    const { perCaller, total, anonymousPart = 1 } = this.#limits;
    const over = (now: Share, most: Partial<Share>, part = 1): keyof Share | undefined => {
      if (now.count + 1 > (most.count ?? Infinity) * part) return 'count';
      return now.bytes + bytes > (most.bytes ?? Infinity) * part ? 'bytes' : undefined;
    };
    const own = name === undefined ? undefined : over(this.#callers.get(name) ?? NOTHING, perCaller);
    if (own) return `caller-${own}`;
    const anonymous = isAnonymous ? over(this.#anonymous, total, anonymousPart) : undefined;
    if (anonymous) return `anonymous-${anonymous}`;
    const all = over(this.#all, total);
    return all && `total-${all}`;
  }

  #add({ name, isAnonymous, bytes }: Entry, times: 1 | -1): void {
    const tallies = [this.#all, ...(isAnonymous ? [this.#anonymous] : [])];
    if (name !== undefined) {
      const own = this.#callers.get(name) ?? { count: 0, bytes: 0 };
      if (own.count + times === 0) this.#callers.delete(name);
      else this.#callers.set(name, own);
      tallies.push(own);
    }
    for (const tally of tallies) {
      tally.count += times;
      tally.bytes += times * bytes;
    }
  }

  #schedule(): void {
    this.#timer ??= outside(() =>
      setTimeout(() => {
        this.#timer = undefined;
        this.#sweep();
        if (this.#entries.size > 0) this.#schedule();
      }, SWEEP),
    ).unref();
  }

  #sweep(): void {
    const now = Date.now();
    for (const [key, { until }] of this.#entries) {
      if (until > now) continue;
      this.release(key);
      if (typeof key === 'string') this.#dropped?.(key);
    }
  }
}

/** Thrown for a limit that the client itself can get below, for example by deleting a session. Its advice is for the client. */
export class CallerLimitError extends ValiseError {
  constructor(message: string, options: ValiseErrorOptions) {
    super('limit-reached', message, options);
  }
}
