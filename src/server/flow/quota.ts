import { AsyncLocalStorage } from 'node:async_hooks';
import type { Principal } from '../principal.ts';
import { principalDigest, type RoundContext } from './context.ts';

/** Who something is kept for. */
export interface Caller {
  /** The principal's digest, or the transport session of an anonymous client; undefined if it has neither. */
  readonly name: string | undefined;
  readonly isAnonymous: boolean;
}

/** The caller of a request. */
export function callerOf(request: {
  readonly principal: Principal | undefined;
  readonly transportSession?: string | undefined;
}): Caller {
  return caller(principalDigest(request.principal), request.transportSession);
}

/** The caller of a round whose answer comes without its call. */
export function callerIn({ u, s }: Pick<RoundContext, 'u' | 's'>): Caller {
  return caller(u, s);
}

function caller(principal: string | undefined, transportSession: string | undefined): Caller {
  return { name: principal ?? transportSession, isAnonymous: principal === undefined };
}

/** How much may be kept at a time. */
export interface Share {
  readonly count: number;
  readonly bytes: number;
}

/** The limit that one more entry would exceed. */
export type Exceeded = `${'caller' | 'anonymous' | 'total'}-${keyof Share}`;

interface Counted extends Caller {
  readonly bytes: number;
  /** When it ends, in milliseconds since 1970. */
  readonly until: number;
}

/** Runs work outside of any request: a timer would keep the request it was made in. */
const outside = AsyncLocalStorage.snapshot();

/** How often entries whose time is over are dropped, in milliseconds. */
const SWEEP = 15_000;

/**
 * Counts what is kept: for each caller, for all anonymous callers (who get at most half, so that they cannot lock out
 * principals), and in total. Counts what this process keeps; other instances have their own.
 */
export class Quota {
  readonly #perCaller: Share;
  readonly #total: Share;
  readonly #dropped: ((key: string) => void) | undefined;
  readonly #entries = new Map<string, Counted>();
  readonly #callers = new Map<string, { count: number; bytes: number }>();
  readonly #anonymous = { count: 0, bytes: 0 };
  readonly #all = { count: 0, bytes: 0 };
  #timer: NodeJS.Timeout | undefined;

  /** `dropped` is told of every entry whose time is over. */
  constructor(perCaller: Share, total: Share, dropped?: (key: string) => void) {
    this.#perCaller = perCaller;
    this.#total = total;
    this.#dropped = dropped;
  }

  /** Counts an entry for `ttl` seconds, in place of one with the same key. Returns the limit it would exceed, and then changes nothing. */
  take(key: string, caller: Caller, bytes = 0, ttl = Number.POSITIVE_INFINITY): Exceeded | undefined {
    const before = this.#entries.get(key);
    this.release(key);
    const entry: Counted = { ...caller, bytes, until: Date.now() + ttl * 1000 };
    let exceeded = this.#exceeded(entry);
    if (exceeded) {
      this.#sweep();
      exceeded = this.#exceeded(entry);
    }
    if (exceeded) {
      if (before) this.#put(key, before);
      return exceeded;
    }
    this.#put(key, entry);
    if (ttl !== Number.POSITIVE_INFINITY) this.#schedule();
    return undefined;
  }

  #put(key: string, entry: Counted): void {
    this.#entries.set(key, entry);
    this.#add(entry, 1);
  }

  /** Forgets an entry. */
  release(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    this.#add(entry, -1);
  }

  #exceeded({ name, isAnonymous, bytes }: Counted): Exceeded | undefined {
    const over = (now: Share, most: Share, share = 1): keyof Share | undefined => {
      if (now.count + 1 > most.count * share) return 'count';
      return now.bytes + bytes > most.bytes * share ? 'bytes' : undefined;
    };
    const own = name === undefined ? undefined : over(this.#callers.get(name) ?? NOTHING, this.#perCaller);
    if (own) return `caller-${own}`;
    const anonymous = isAnonymous ? over(this.#anonymous, this.#total, 0.5) : undefined;
    if (anonymous) return `anonymous-${anonymous}`;
    const all = over(this.#all, this.#total);
    return all && `total-${all}`;
  }

  #add({ name, isAnonymous, bytes }: Counted, times: 1 | -1): void {
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
      this.#dropped?.(key);
    }
  }
}

const NOTHING: Share = { count: 0, bytes: 0 };
