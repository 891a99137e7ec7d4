import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { Store } from '../store/types.ts';
import type { Bench } from './contract-types.ts';

/** Polls until a condition holds. Fails if it never does. */
export async function until(holds: () => Promise<boolean>, seconds = 10): Promise<void> {
  const end = performance.now() + seconds * 1000;
  while (!(await holds())) {
    assert.ok(performance.now() < end, `not so after ${seconds} s: ${holds.toString()}`);
    await pause(2 + Math.random() * 8);
  }
}

/** Returns `count` handles on one place, or the same handle several times if a place opens only once. */
export async function sharesHandles({ open, reopens }: Bench, count: number): Promise<Store[]> {
  if (reopens) return Promise.all(Array.from({ length: count }, open));
  return new Array<Store>(count).fill(await open());
}

/** Adds one to the number under `key`, and retries until nobody else was faster. */
export async function increment(store: Store, key: string): Promise<void> {
  for (;;) {
    const entry = await store.get(key);
    const condition = entry ? { ifVersion: entry.version } : { ifAbsent: true };
    if ((await store.put(key, ((entry?.value as number) ?? 0) + 1, condition)) !== undefined) return;
  }
}
