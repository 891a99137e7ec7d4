import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { Lease, PutOptions, Store } from '../store/types.ts';
import { type Bench, type Case, until } from './contract-case.ts';
import { withWorkers } from './contract-processes.ts';

/** The state after a process, or the backend, ends in the middle of an operation. */
export const crashCases: readonly Case[] = [
  {
    title: (count) =>
      `holds the old or the new value after kill -9 in the middle of a write, never a torn one, ${count(12, 2)} times`,
    needs: 'processes',
    async run(bench) {
      const bytes = Math.min(200_000, bench.maxValueBytes - 64);
      for (let round = 0; round < bench.count(12, 2); round++) {
        const confirmed = await killWhileWriting(bench, bytes, Math.random() * 20);
        const store = await bench.open();
        const entry = await store.get('torn');
        assert.ok(entry, 'the value is gone');
        const { number, text } = entry.value as { number: number; text: string };
        assert.equal(text, String.fromCharCode(97 + (number % 26)).repeat(bytes), 'a torn value');
        // Confirmed writes are present; the pending one may be.
        assert.ok(number >= confirmed, `${confirmed} was confirmed, ${number} is there`);
        assert.equal(typeof (await store.put('after', round)), 'string');
        await store.close();
      }
    },
  },
  {
    title:
      'Operations wait or fail with store-unavailable while the server restarts, and work again afterwards',
    needs: 'restarts',
    async run({ place, open }) {
      const store = await open();
      await store.put('before', 1);
      let stopped = false;
      let written = 0;
      const writers = Array.from({ length: 4 }, async (_, writer) => {
        while (!stopped) {
          try {
            await store.put(`during/${writer}`, written);
            written++;
          } catch (error) {
            assert.equal((error as { code?: string }).code, 'store-unavailable', String(error));
            await pause(5);
          }
        }
      });
      await until(async () => written > 20);
      await place.restart?.();
      const atRestart = written;
      await until(async () => written > atRestart + 20, 60);
      stopped = true;
      await Promise.all(writers);
      const version = await store.put('after', 1);
      assert.deepEqual(await store.get('after'), { value: 1, version });
      const lease = await store.lease('after', 5);
      assert.ok(lease, 'leases work again');
    },
  },
];

/** Returns the last write that was confirmed before the process died. */
async function killWhileWriting(bench: Bench, bytes: number, milliseconds: number): Promise<number> {
  return withWorkers(bench, 1, async ([worker]) => {
    let confirmed = 0;
    const first = new Promise<void>((resolve) => {
      worker?.begin({ job: 'rewrite', key: 'torn', bytes }, (number) => {
        confirmed = number;
        resolve();
      });
    });
    await first;
    await pause(milliseconds);
    await worker?.kill();
    return confirmed;
  });
}

/** The result of a write whose reply was lost in transit. */
export const lostReplyCases: readonly Case[] = [
  {
    title: 'A write whose reply was lost is never reported as a conflict with itself',
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
    title: 'Concurrent increments add up while replies are lost',
    needs: 'losesReplies',
    async run({ open, place, count }) {
      const store = await open();
      await store.put('count', 0);
      const rounds = count(60, 12);
      for (let done = 0; done < rounds; done++)
        await countOn(store, done, () => done % 3 === 0 && place.loseReply?.());
      assert.equal((await store.get('count'))?.value, rounds);
    },
  },
  {
    title: 'A lease belongs to the holder that asked for it, even if the reply was lost',
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

async function countOn(store: Store, from: number, before: () => unknown): Promise<void> {
  const entry = await store.get('count');
  assert.equal(entry?.value, from);
  before();
  const written = await store.put('count', from + 1, { ifVersion: entry.version }).catch(failedUnknown);
  assert.notEqual(written, undefined, 'a conflict with nobody');
  if (written === 'unknown' && (await store.get('count'))?.value === from)
    await countOn(store, from, () => {});
}

/** Asserts that the store reported the outcome as unknown, which is also allowed. */
function failedUnknown(error: unknown): 'unknown' {
  assert.equal((error as { outcome?: unknown }).outcome, 'unknown', String(error));
  return 'unknown';
}
