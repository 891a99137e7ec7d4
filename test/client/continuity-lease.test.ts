import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { underLease } from '../../src/client/continuity/lease.ts';

describe('work that one process at a time does', () => {
  let store: Store;
  beforeEach(() => {
    vi.useFakeTimers();
    store = memoryStore();
  });
  afterEach(() => vi.useRealTimers());

  const nobody = async () => undefined;

  it('is done by nobody else for as long as it takes, and by the next one then', async () => {
    let finish: (value: string) => void = () => {};
    const slow = underLease(
      store,
      'work',
      () => new Promise<string>((resolve) => (finish = resolve)),
      nobody,
    );
    await vi.advanceTimersByTimeAsync(40_000);
    expect(await store.lease('work', 1)).toBeUndefined();
    finish('first');
    expect(await slow).toBe('first');
    expect(await underLease(store, 'work', async () => 'second', nobody)).toBe('second');
  });

  it('waits no longer for a process that was killed than until its lease could have been renewed thrice', async () => {
    const { lease } = store;
    // As a killed process does, the first one renews nothing and gives nothing back.
    store.lease = async (key, ttl) => {
      const held = await lease.call(store, key, ttl);
      store.lease = lease;
      return held && { ...held, renew: async () => true, release: async () => {} };
    };
    void underLease(store, 'work', () => new Promise<never>(() => {}), nobody);
    const next = underLease(store, 'work', async () => 'second', nobody);
    await vi.advanceTimersByTimeAsync(7000);
    expect(await next).toBe('second');
  });
});
