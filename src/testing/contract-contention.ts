import assert from 'node:assert/strict';
import { withWorkers } from './contract-processes.ts';
import type { Case } from './contract-types.ts';
import { increment, sharesHandles } from './contract-wait.ts';

const WRITERS = 8;
const PROCESSES = 4;

/** Concurrent writes with compare-and-set, and nothing else to protect them, lose nothing. */
export const contentionCases: readonly Case[] = [
  {
    title: (count) =>
      `loses none of ${count(1000 / WRITERS)} × ${WRITERS} increments through ${WRITERS} writers`,
    async run(bench) {
      const times = bench.count(1000 / WRITERS);
      const stores = await sharesHandles(bench, WRITERS);
      await Promise.all(
        stores.map(async (store) => {
          for (let done = 0; done < times; done++) await increment(store, 'counter');
        }),
      );
      assert.equal((await stores[0]?.get('counter'))?.value, times * WRITERS);
    },
  },
  {
    title: (count) =>
      `loses none of ${count(1000 / WRITERS)} × ${WRITERS} increments through ${WRITERS} writers in ${PROCESSES} processes`,
    needs: 'processes',
    async run(bench) {
      const times = bench.count(1000 / WRITERS);
      const writers = WRITERS / PROCESSES;
      await withWorkers(bench, PROCESSES, (workers) =>
        Promise.all(
          workers.map((worker) => worker.run({ job: 'increment', key: 'counter', times, writers })),
        ),
      );
      const store = await bench.open();
      assert.equal((await store.get('counter'))?.value, times * WRITERS);
    },
  },
];
