import assert from 'node:assert/strict';
import type { Json } from '../core/json.ts';
import type { Lease, Store } from '../store/types.ts';
import { type Case, increment, sharesHandles, until } from './contract-case.ts';
import { withWorkers } from './contract-processes.ts';

const VALUES: readonly Json[] = [
  null,
  true,
  false,
  0,
  -1.5e-7,
  Number.MAX_SAFE_INTEGER,
  '',
  'a\u0000b\n\t"\\\u2028',
  'naïve 🧳 שלום e\u0301',
  '\ud800 alone',
  [],
  {},
  [[[[]]], { a: [null, { b: {} }] }],
  { '': 1, 'a b': 2, ключ: 3, constructor: 4, toString: 5 },
  JSON.parse('{"__proto__":{"polluted":true},"__proto__x":1}') as Json,
];

/** The behavior of a single key: values, versions, conditions, lifetimes, and rejected input. */
export const entryCases: readonly Case[] = [
  {
    title: 'get returns undefined for a key that was never written',
    async run({ open }) {
      const store = await open();
      assert.equal(await store.get('nothing'), undefined);
      assert.equal(await store.delete('nothing'), false);
    },
  },
  {
    title: 'get returns every kind of JSON as it was put',
    async run({ open }) {
      const store = await open();
      for (const [index, value] of VALUES.entries()) {
        const version = await store.put(`value/${index}`, value);
        assert.equal(typeof version, 'string');
        assert.deepEqual(await store.get(`value/${index}`), { value, version });
      }
      assert.equal(({} as { polluted?: boolean }).polluted, undefined);
    },
  },
  {
    title: 'The store holds large values, in ASCII and in emoji',
    async run({ open, maxValueBytes }) {
      const store = await open();
      for (const letter of ['x', '🧳']) {
        const value = { text: letter.repeat(Math.floor((maxValueBytes - 16) / Buffer.byteLength(letter))) };
        await store.put('large', value);
        assert.deepEqual((await store.get('large'))?.value, value);
      }
    },
  },
  {
    title: 'The store keeps a copy: changing the value that was put or got does not change the entry',
    async run({ open }) {
      const store = await open();
      const mine = { list: [1] };
      const putting = store.put('copy', mine);
      mine.list.push(2);
      await putting;
      const got = (await store.get('copy'))?.value as typeof mine;
      assert.deepEqual(got, { list: [1] });
      got.list.push(3);
      assert.deepEqual((await store.get('copy'))?.value, { list: [1] });
    },
  },
  {
    title: 'Every write gets a new version, even of the same value, and no version returns after a delete',
    async run({ open }) {
      const store = await open();
      const seen = new Set<string | undefined>();
      for (let round = 0; round < 5; round++) {
        seen.add(await store.put('same', 1));
        seen.add(await store.put('same', 1));
        assert.equal(await store.delete('same'), true);
        assert.equal(await store.get('same'), undefined);
      }
      assert.equal(seen.size, 10);
      assert.equal(seen.has(undefined), false);
    },
  },
  {
    title: 'put with ifVersion writes only over that version',
    async run({ open }) {
      const store = await open();
      assert.equal(await store.put('cas', 0, { ifVersion: 'never-given' }), undefined);
      assert.equal(await store.get('cas'), undefined);
      const first = await store.put('cas', 1);
      const second = await store.put('cas', 2, { ifVersion: first as string });
      assert.ok(second !== undefined && second !== first);
      assert.equal(await store.put('cas', 3, { ifVersion: first as string }), undefined);
      assert.deepEqual(await store.get('cas'), { value: 2, version: second });
      await store.delete('cas');
      assert.equal(await store.put('cas', 4, { ifVersion: second }), undefined);
      assert.equal(await store.get('cas'), undefined);
    },
  },
  {
    title: 'put with ifAbsent writes only if there is no entry',
    async run({ open }) {
      const store = await open();
      const version = await store.put('once', 1, { ifAbsent: true });
      assert.equal(typeof version, 'string');
      assert.equal(await store.put('once', 2, { ifAbsent: true }), undefined);
      assert.deepEqual(await store.get('once'), { value: 1, version });
      await store.delete('once');
      assert.equal(typeof (await store.put('once', 3, { ifAbsent: true })), 'string');
    },
  },
  {
    title: 'One of many concurrent writers with ifAbsent wins',
    async run(bench) {
      const stores = await sharesHandles(bench, 4);
      const tries = Array.from({ length: 40 }, (_, n) =>
        stores[n % stores.length]?.put('race', n, { ifAbsent: true }),
      );
      const versions = (await Promise.all(tries)).filter((version) => version !== undefined);
      assert.equal(versions.length, 1);
      assert.equal((await stores[0]?.get('race'))?.version, versions[0]);
    },
  },
  {
    title: 'delete with ifVersion deletes only that version',
    async run({ open }) {
      const store = await open();
      const first = (await store.put('gone', 1)) as string;
      const second = (await store.put('gone', 2)) as string;
      assert.equal(await store.delete('gone', { ifVersion: first }), false);
      assert.equal((await store.get('gone'))?.value, 2);
      assert.equal(await store.delete('gone', { ifVersion: second }), true);
      assert.equal(await store.delete('gone', { ifVersion: second }), false);
    },
  },
  {
    title: 'An entry expires for get, list, ifVersion, ifAbsent and delete alike',
    async run({ open }) {
      const store = await open();
      const before = Date.now();
      const version = (await store.put('short', 1, { ttl: 2 })) as string;
      const after = Date.now();
      const expiresAt = (await store.get('short'))?.expiresAt as number;
      // The server's clock may apply instead of the local one, and may round.
      assert.ok(
        expiresAt > before + 1000 && expiresAt < after + 3000,
        `ends ${expiresAt - before} ms after the put`,
      );
      await store.put('long', 1, { ttl: 3600 });
      await until(async () => (await store.get('short')) === undefined);
      assert.ok(Date.now() - before > 1000, 'ended too early');
      assert.deepEqual((await store.list('')).keys, ['long']);
      assert.equal(await store.delete('short'), false);
      assert.equal(await store.put('short', 2, { ifVersion: version }), undefined);
      assert.equal(typeof (await store.put('short', 3, { ifAbsent: true })), 'string');
      assert.deepEqual((await store.get('short'))?.value, 3);
    },
  },
  {
    title: 'Every write sets its own lifetime, and a write without one never expires',
    async run({ open }) {
      const store = await open();
      await store.put('life', 1, { ttl: 0.2 });
      const version = await store.put('life', 2);
      await store.put('clock', 1, { ttl: 0.4 });
      await until(async () => (await store.get('clock')) === undefined);
      assert.deepEqual(await store.get('life'), { value: 2, version });
      await store.put('life', 3, { ttl: 3600, ifVersion: version as string });
      assert.ok(((await store.get('life'))?.expiresAt as number) > Date.now() + 3_500_000);
    },
  },
  {
    title:
      'Invalid keys, values, lifetimes and page sizes are refused, each with its code, and nothing is stored',
    async run({ open }) {
      const store = await open();
      for (const key of ['', 'a\u0000b', '\ud800', 'k'.repeat(1025), 7 as unknown as string]) {
        await assert.rejects(store.get(key), { code: 'store-invalid' });
        await assert.rejects(store.put(key, 1), { code: 'store-invalid' });
        await assert.rejects(store.delete(key), { code: 'store-invalid' });
        await assert.rejects(store.lease(key, 1), { code: 'store-invalid' });
      }
      const loop: { self?: unknown } = {};
      loop.self = loop;
      for (const value of [undefined, loop, 1n, () => 1]) {
        await assert.rejects(store.put('bad', value as unknown as Json), { code: 'store-invalid' });
      }
      for (const ttl of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, '5' as unknown as number]) {
        await assert.rejects(store.put('bad', 1, { ttl }), { code: 'store-invalid' });
        await assert.rejects(store.lease('bad', ttl), { code: 'store-invalid' });
      }
      for (const limit of [0, -1, 1.5, Number.NaN]) {
        await assert.rejects(store.list('', { limit }), { code: 'store-invalid' });
      }
      assert.deepEqual((await store.list('')).keys, []);
    },
  },
];

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

/** The data that remains after a store is closed, and the work that closing waits for. */
export const lifeCases: readonly Case[] = [
  {
    title: 'Entries, versions, lifetimes and leases survive when the store is opened again',
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
    title: 'Every handle sees the writes of all others',
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
    title: 'close waits for operations in progress and refuses later ones',
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
