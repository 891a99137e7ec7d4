import type { Lease, Store } from '../../store/types.ts';

/** A lease that is kept alive until it is given back. */
export interface Held {
  release(): Promise<void>;
}

const TTL = 15;
const LONGEST_WAIT = (TTL + 5) * 1000;

/**
 * Becomes the only holder of `key`, waiting while another one lives; a holder that died keeps others out for at most
 * its last {@link TTL} seconds. Undefined where the other one lives on.
 */
export async function hold(store: Pick<Store, 'lease'>, key: string): Promise<Held | undefined> {
  const end = performance.now() + LONGEST_WAIT;
  for (let pause = 25; ; pause = Math.min(pause * 2, 500)) {
    const lease = await store.lease(key, TTL);
    if (lease) return kept(lease);
    if (performance.now() + pause > end) return undefined;
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

function kept(lease: Lease): Held {
  // A lease that cannot be renewed is noticed where it counts: the writes under it are conditional.
  const timer = setInterval(() => lease.renew(TTL).catch(() => {}), (TTL * 1000) / 3);
  timer.unref();
  return {
    release() {
      clearInterval(timer);
      return lease.release();
    },
  };
}
