import assert from 'node:assert/strict';
import type { Lease, PutOptions, Store } from '../store/types.ts';
import type { Case } from './contract-types.ts';

/** The result of a write whose reply was lost in transit. */
export const lostReplyCases: readonly Case[] = [
  {
    title: 'never reports a write of its own as a conflict after its reply was lost',
    needs: 'losesReplies',
    async run({ open, place }) {
      const store = await open();
      await store.put('warm', 1, { ttl: 60 });
      const version = (await store.put('old', 0)) as string;
      const writes: readonly (readonly [string, PutOptions])[] = [
        ['plain', { ttl: 60 }],
        ['absent', { ifAbsent: true }],
        ['absent unlisted', { ifAbsent: true, unlisted: true, ttl: 60 }],
        ['old', { ifVersion: version }],
      ];
      for (const [key, options] of writes) {
        place.loseReply?.();
        const written = await store.put(key, 1, options).catch(failedUnknown);
        assert.notEqual(written, undefined, `${key}: reported as a conflict`);
        const entry = await store.get(key);
        if (typeof written === 'string') assert.deepEqual([entry?.value, entry?.version], [1, written], key);
      }
    },
  },
  {
    title: 'counts right while replies are lost',
    needs: 'losesReplies',
    async run({ open, place, count }) {
      const store = await open();
      await store.put('count', 0);
      const rounds = count(60, 12);
      for (let done = 0; done < rounds; done++)
        await increment(store, done, () => done % 3 === 0 && place.loseReply?.());
      assert.equal((await store.get('count'))?.value, rounds);
    },
  },
  {
    title: 'gives the lease to the holder who asked, though the reply was lost',
    needs: 'losesReplies',
    async run({ open, place }) {
      const store = await open();
      await ((await store.lease('warm', 60)) as Lease).release();
      place.loseReply?.();
      const lease = await store.lease('held', 60);
      assert.ok(lease, 'the lease was taken by its own lost request');
      assert.equal(await lease.renew(60), true);
    },
  },
];

async function increment(store: Store, from: number, before: () => unknown): Promise<void> {
  const entry = await store.get('count');
  assert.equal(entry?.value, from);
  before();
  const written = await store.put('count', from + 1, { ifVersion: entry.version }).catch(failedUnknown);
  assert.notEqual(written, undefined, 'a conflict with nobody');
  if (written === 'unknown' && (await store.get('count'))?.value === from)
    await increment(store, from, () => {});
}

/** Asserts that the store reported the outcome as unknown, which is also allowed. */
function failedUnknown(error: unknown): 'unknown' {
  assert.equal((error as { outcome?: unknown }).outcome, 'unknown', String(error));
  return 'unknown';
}
