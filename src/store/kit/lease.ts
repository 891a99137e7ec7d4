import { ValiseError } from '../../errors.ts';
import type { Lease, Store } from '../types.ts';
import { clock, sleep } from './clock.ts';

/** How a lease is waited for, and kept. */
export interface LeaseOptions<T = never> {
  /** How long it outlives a process that was killed, in seconds. It is renewed in time while the work takes longer. */
  readonly ttl?: number;
  /** How long to wait while another process has it, in seconds. 0 asks once. */
  readonly wait?: number;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
  /** Asked while waiting whether there is nothing left to do: its answer, unless undefined, takes the place of the work's. */
  readonly meanwhile?: (() => Promise<T | undefined>) | undefined;
  /** What to do if another process keeps the lease; by default throws `lease-busy`. */
  readonly busy?: (() => T | Promise<T>) | undefined;
  /** Set to false for work that must not hold the lease for longer than one `ttl`, even if it hangs. */
  readonly renew?: boolean;
}

/** A lease that is renewed until it is released. */
export interface HeldLease {
  /** Aborted when the lease is lost: another process may hold it now. */
  readonly signal: AbortSignal;
  /** Gives it back. If that fails it ends by itself. */
  release(): Promise<void>;
}

type Leasing = Pick<Store, 'lease'>;

const TTL = 6;
const WAIT = 60;

/**
 * Does `work` while no other process does work under the same key. Renews the lease meanwhile, aborts the signal that `work`
 * got if the lease is lost all the same, and gives it back. What must not happen twice is protected by conditional writes,
 * not by the lease alone: a process that was paused notices late that it has lost it.
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
  throw new ValiseError('lease-busy', `Another process has held ${key} for over ${options.wait ?? WAIT} s.`, {
    next: 'End that process, or try again.',
  });
}

/** As {@link withLease}, for work that ends elsewhere: whoever gets the lease releases it. Undefined if others keep it. */
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
    // A store that is away for a moment may be back before the lease ends.
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
  return new ValiseError('lease-lost', 'The lease under which this was done has been lost.', {
    next: 'Try again: another process may have done it.',
  });
}
