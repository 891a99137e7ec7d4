import { ValiseError } from '../../core/errors.ts';
import type { Lease, Store } from '../types.ts';
import { clock, sleep } from './clock.ts';

/** Options for acquiring and holding a lease. */
export interface LeaseOptions<T = never> {
  /** How long the lease outlives a killed process, in seconds. It is renewed while the work takes longer. */
  readonly ttl?: number;
  /** How long to wait while another process holds the lease, in seconds. 0 tries once. */
  readonly wait?: number;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called while waiting, to check whether the work is still needed. A result other than undefined replaces the result
   * of the work.
   */
  readonly meanwhile?: (() => Promise<T | undefined>) | undefined;
  /** Called if another process keeps the lease. By default, throws `store-busy`. */
  readonly busy?: (() => T | Promise<T>) | undefined;
  /** Set to false for work that must not hold the lease for longer than one `ttl`, even if it hangs. */
  readonly renew?: boolean;
}

/** A lease that is renewed until it is released. */
export interface HeldLease {
  /** Aborted when the lease is lost, and another process may hold it. */
  readonly signal: AbortSignal;
  /** Releases the lease. If that fails, it expires by itself. */
  release(): Promise<void>;
}

type Leasing = Pick<Store, 'lease'>;

const TTL = 6;
const WAIT = 60;

/**
 * Runs `work` while no other process runs work under the same key. Renews the lease in the meantime, aborts the signal
 * passed to `work` if the lease is lost anyway, and releases it at the end. Protect anything that must not happen twice
 * with conditional writes, not with the lease alone: a process that was paused notices the loss late.
 */
export async function withLease<T>(
  store: Leasing,
  key: string,
  work: (signal: AbortSignal) => Promise<T>,
  { meanwhile, busy, ...options }: LeaseOptions<T> = {},
): Promise<T> {
  let answer: T | undefined;
  const isAnswered = async (): Promise<boolean> => (answer = await meanwhile?.()) !== undefined;
  const held = await holdLease(store, key, options, isAnswered);
  if (held) return work(held.signal).finally(() => held.release());
  if (answer !== undefined) return answer;
  options.signal?.throwIfAborted();
  if (busy) return busy();
  throw new ValiseError('store-busy', `Another process has held ${key} for over ${options.wait ?? WAIT} s.`, {
    next: 'End that process, or try again.',
  });
}

/** Like {@link withLease}, for work that ends elsewhere: the caller releases the lease. Returns undefined if others keep it. */
export async function holdLease(
  store: Leasing,
  key: string,
  { ttl = TTL, wait = WAIT, signal, renew = true }: Omit<LeaseOptions, 'meanwhile' | 'busy'> = {},
  isObsolete?: () => Promise<boolean>,
): Promise<HeldLease | undefined> {
  const end = clock.elapsed() + wait * 1000;
  for (let pause = 10; !signal?.aborted; pause = Math.min(pause * 1.5, 250)) {
    const lease = await store.lease(key, ttl);
    if (lease) return kept(lease, ttl, renew);
    if ((await isObsolete?.()) || clock.elapsed() + pause > end) return undefined;
    await sleep(pause, signal);
  }
  return undefined;
}

function kept(lease: Lease, ttl: number, renew: boolean): HeldLease {
  const lost = new AbortController();
  const lose = (): void => lost.abort(lostError());
  let until = clock.elapsed() + ttl * 1000;
  const prolong = async (): Promise<void> => {
    const asked = clock.elapsed();
    // A store that is briefly unreachable may be back before the lease expires.
    const isOurs = await lease.renew(ttl).catch(() => clock.elapsed() < until && undefined);
    if (isOurs) until = asked + ttl * 1000;
    else if (isOurs === false) lose();
  };
  const stop = renew ? clock.every((ttl * 1000) / 3, prolong) : clock.whileAlive(ttl * 1000, lose);
  return {
    signal: lost.signal,
    async release() {
      stop();
      await lease.release().catch(() => undefined);
    },
  };
}

function lostError(): ValiseError {
  return new ValiseError('store-busy', 'The lease under which this was done has been lost.', {
    next: 'Try again: another process may have done it.',
  });
}
