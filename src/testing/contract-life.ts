import assert from 'node:assert/strict';
import type { Lease, Store } from '../store/types.ts';
import type { Case } from './contract-types.ts';

/** The data that remains after a store is closed, and the work that closing waits for. */
export const lifeCases: readonly Case[] = [
  {
    title: 'keeps entries, versions, lifetimes and leases when it is opened again',
    needs: 'reopens',
    async run({ open }) {
      const first = await open();
      const version = (await first.put('stays', { deep: ['🧳'] })) as string;
      await first.put('ends', 1, { ttl: 3600 });
      const ends = await first.get('ends');
      const lease = (await first.lease('held', 60)) as Lease;
      await first.close();

      const second = await open();
      assert.deepEqual(await second.get('stays'), { value: { deep: ['🧳'] }, version });
      assert.deepEqual(await second.get('ends'), ends);
      assert.equal(await second.lease('held', 60), undefined);
      const other = (await second.lease('free', 60)) as Lease;
      assert.ok(other.fence > 0 && lease.fence > 0);
      const next = await second.put('stays', 2, { ifVersion: version });
      assert.ok(next !== undefined && next !== version);
    },
  },
  {
    title: 'shows to every handle what any of them wrote',
    needs: 'reopens',
    async run({ open }) {
      const [one, two] = (await Promise.all([open(), open()])) as [Store, Store];
      for (let round = 0; round < 10; round++) {
        const version = await one.put('shared', round);
        assert.deepEqual(await two.get('shared'), { value: round, version });
        assert.equal(await two.delete('shared', { ifVersion: version as string }), true);
        assert.equal(await one.get('shared'), undefined);
      }
    },
  },
  {
    title: 'does the work under way before it closes, and refuses what comes after',
    async run({ open, reopens, count }) {
      const store = await open();
      const lease = (await store.lease('lease', 60)) as Lease;
      const work = Array.from({ length: count(50, 10) }, (_, n) => store.put(`work/${n}`, n));
      const closing = store.close();
      for (const version of await Promise.all(work)) assert.equal(typeof version, 'string');
      await closing;
      await store.close();
      const closed = { code: 'closed' };
      await assert.rejects(store.get('work/0'), closed);
      await assert.rejects(store.put('work/0', 1), closed);
      await assert.rejects(store.delete('work/0'), closed);
      await assert.rejects(store.list(''), closed);
      await assert.rejects(store.lease('a', 1), closed);
      await assert.rejects(lease.renew(1), closed);
      if (reopens) {
        const again = await open();
        assert.equal((await again.list('work/')).keys.length, work.length);
      }
    },
  },
];
