import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { withLease } from '../../src/store/kit/lease.ts';

describe('leases', () => {
  let store: Store;
  beforeEach(() => {
    vi.useFakeTimers();
    store = memoryStore();
  });
  afterEach(() => vi.useRealTimers());

  it('Work under a lease runs in one process at a time, however long it takes', async () => {
    let finish: (value: string) => void = () => {};
    const slow = withLease(store, 'work', () => new Promise<string>((resolve) => (finish = resolve)));
    await vi.advanceTimersByTimeAsync(40_000);
    expect(await store.lease('work', 1)).toBeUndefined();
    finish('first');
    expect(await slow).toBe('first');
    expect(await withLease(store, 'work', async () => 'second')).toBe('second');
  });

  it('A lease of a killed process expires after three missed renewals', async () => {
    const { lease } = store;
    // As a killed process does, the first one renews nothing and gives nothing back.
    store.lease = async (key, ttl) => {
      const held = await lease.call(store, key, ttl);
      store.lease = lease;
      return held && { ...held, renew: async () => true, release: async () => {} };
    };
    void withLease(store, 'work', () => new Promise<never>(() => {}));
    const next = withLease(store, 'work', async () => 'second');
    await vi.advanceTimersByTimeAsync(7000);
    expect(await next).toBe('second');
  });
});
