import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { withWorkers } from './contract-processes.ts';
import type { Bench, Case } from './contract-types.ts';
import { until } from './contract-wait.ts';

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
    title: 'waits or fails with store-unavailable while the other side restarts, and works again after',
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
