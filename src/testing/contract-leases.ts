import assert from 'node:assert/strict';
import type { Lease, Store } from '../store/types.ts';
import { type Case, sharesHandles, until } from './contract-case.ts';
import { withWorkers } from './contract-processes.ts';

/** Leases: a single holder, an increasing fence, and takeover after a holder is gone. */
export const leaseCases: readonly Case[] = [
  {
    title: 'A lease has one holder until it is released',
    async run(bench) {
      const [one, two] = (await sharesHandles(bench, 2)) as [Store, Store];
      const first = (await one.lease('job', 60)) as Lease;
      assert.ok(first);
      assert.equal(await two.lease('job', 60), undefined);
      assert.equal(await one.lease('job', 60), undefined, 'also not a second time for its holder');
      assert.ok(await two.lease('other job', 60), 'another key is another lease');
      await first.release();
      const second = (await two.lease('job', 60)) as Lease;
      assert.ok(second.fence > first.fence, 'the fence rises');
    },
  },
  {
    title: 'One of many concurrent applicants gets the lease',
    async run(bench) {
      const stores = await sharesHandles(bench, 4);
      const tries = await Promise.all(Array.from({ length: 32 }, (_, n) => stores[n % 4]?.lease('race', 60)));
      assert.equal(tries.filter((lease) => lease !== undefined).length, 1);
    },
  },
  {
    title: 'A lease expires if it is not renewed',
    async run({ open }) {
      const store = await open();
      const kept = (await store.lease('kept', 2)) as Lease;
      assert.equal(await kept.renew(60), true);
      const lost = (await store.lease('lost', 0.3)) as Lease;
      let next: Lease | undefined;
      await until(async () => (next = await store.lease('lost', 60)) !== undefined);
      assert.ok((next?.fence ?? 0) > lost.fence);
      assert.equal(await lost.renew(60), false, 'what is lost cannot be renewed');
      await lost.release();
      assert.equal(await store.lease('lost', 60), undefined, 'giving back what is lost takes it from nobody');
      assert.equal(await next?.renew(60), true);
      assert.equal(await store.lease('kept', 60), undefined);
    },
  },
  {
    title: 'A lease cannot be renewed once it has expired or was released, even if nobody else wants it',
    async run({ open }) {
      const store = await open();
      const short = (await store.lease('short', 0.1)) as Lease;
      await store.put('clock', 1, { ttl: 0.5 });
      await until(async () => (await store.get('clock')) === undefined);
      assert.equal(await short.renew(60), false);
      const given = (await store.lease('given', 60)) as Lease;
      await given.release();
      await given.release();
      assert.equal(await given.renew(60), false);
      assert.ok(await store.lease('given', 60));
    },
  },
  {
    title: 'A lease is separate from the entry of the same name and is not listed',
    async run({ open }) {
      const store = await open();
      const lease = (await store.lease('name', 60)) as Lease;
      assert.equal(await store.get('name'), undefined);
      assert.deepEqual(await store.list(''), { keys: [] });
      assert.equal(typeof (await store.put('name', 1, { ifAbsent: true })), 'string');
      assert.equal(await store.delete('name'), true);
      assert.equal(await store.lease('name', 60), undefined);
      await lease.release();
    },
  },
  {
    title: (count) =>
      `A lease has one holder at a time among 8 processes that each want it ${count(10)} times`,
    needs: 'processes',
    async run(bench) {
      const times = bench.count(10);
      const store = await bench.open();
      await withWorkers(bench, 8, (workers) =>
        Promise.all(
          workers.map((worker) =>
            worker.run({ job: 'guarded-increment', lease: 'door', key: 'inside', times }),
          ),
        ),
      );
      assert.equal((await store.get('inside'))?.value, 8 * times, 'two were inside at once');
    },
  },
  {
    title: 'A lease passes on from a holder that was killed',
    needs: 'processes',
    async run(bench) {
      const store = await bench.open();
      await withWorkers(bench, 1, async ([worker]) => {
        const fence = (await worker?.run({ job: 'hold', lease: 'mine', ttl: 3 })) as number;
        assert.equal(await store.lease('mine', 60), undefined, 'its holder lives');
        await worker?.kill();
        let next: Lease | undefined;
        await until(async () => (next = await store.lease('mine', 60)) !== undefined);
        assert.ok((next?.fence ?? 0) > fence);
      });
    },
  },
];
