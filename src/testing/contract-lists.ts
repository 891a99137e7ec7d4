import assert from 'node:assert/strict';
import type { Store } from '../store/types.ts';
import { type Case, sharesHandles } from './contract-case.ts';

const ODD_KEYS: readonly string[] = [
  ' ',
  '.',
  '..',
  '../../etc/passwd',
  '/',
  'a/b/',
  'a//b',
  'A',
  'a',
  'con',
  'key with spaces',
  'tab\tnewline\nreturn\r',
  "'; DROP TABLE entry; --",
  '"quoted"\\backslash',
  '%',
  '%25',
  '_',
  '*',
  '?',
  '[a-z]',
  '{curly}',
  '$1',
  ':',
  'a:b',
  '__proto__',
  'constructor',
  'hasOwnProperty',
  'toString',
  'null',
  'undefined',
  '0',
  '-1',
  'é',
  'e\u0301',
  'ﬀ',
  'İstanbul',
  '日本語',
  'עברית\u200e',
  '🧳',
  '👩\u200d👩\u200d👧',
  '\u{10ffff}',
  '\uffff',
  '\ufeffbom',
  '\u007f\u0080',
];

/** Listing: by prefix, in pages, complete while others write. */
export const listCases: readonly Case[] = [
  {
    title: 'Keys with unusual characters are distinct, and each is listed',
    async run({ open, maxKeyBytes }) {
      const store = await open();
      const odd = [...ODD_KEYS, 'k'.repeat(maxKeyBytes)];
      for (const [index, key] of odd.entries()) await store.put(key, index);
      for (const [index, key] of odd.entries()) {
        assert.equal((await store.get(key))?.value, index, JSON.stringify(key));
      }
      assert.deepEqual(new Set(await everyKey(store, '', 7)), new Set(odd));
      for (const key of odd) {
        assert.ok(
          (await everyKey(store, key, 3)).includes(key),
          `not listed by itself: ${JSON.stringify(key)}`,
        );
        assert.equal(await store.delete(key), true, JSON.stringify(key));
      }
      assert.deepEqual(await store.list(''), { keys: [] });
    },
  },
  {
    title: 'list takes a prefix literally, without wildcards',
    async run({ open }) {
      const store = await open();
      for (const key of ['a', 'aa', 'a%', 'a_', 'a*', 'a?', 'a[b]', 'b', 'A', 'a/1', 'a/2', 'a0'])
        await store.put(key, 1);
      for (const prefix of ['a%', 'a_', 'a*', 'a?', 'a[', 'A', 'b', 'aa']) {
        const { keys } = await store.list(prefix);
        assert.equal(keys.length, 1, prefix);
        assert.ok(keys[0]?.startsWith(prefix));
      }
      assert.deepEqual([...(await store.list('a/')).keys].sort(), ['a/1', 'a/2']);
      assert.equal((await store.list('a')).keys.length, 10);
      assert.deepEqual(await store.list('nothing'), { keys: [] });
    },
  },
  {
    title: 'list returns pages of the requested size, with a cursor on all but the last',
    async run({ open }) {
      const store = await open();
      const names = Array.from({ length: 10 }, (_, n) => `page/${n}`);
      await Promise.all(names.map((key) => store.put(key, 1)));
      await store.put('pagf', 1);
      const first = await store.list('page/', { limit: 4 });
      const second = await store.list('page/', { limit: 4, cursor: first.cursor as string });
      const third = await store.list('page/', { limit: 4, cursor: second.cursor as string });
      assert.deepEqual(
        [first, second, third].map(({ keys }) => keys.length),
        [4, 4, 2],
      );
      assert.deepEqual(
        [first, second, third].map(({ cursor }) => typeof cursor),
        ['string', 'string', 'undefined'],
      );
      assert.deepEqual([...first.keys, ...second.keys, ...third.keys].sort(), names);
      const exact = await store.list('page/', { limit: 10 });
      assert.deepEqual([...exact.keys].sort(), names);
      if (exact.cursor !== undefined) {
        assert.deepEqual(await store.list('page/', { limit: 10, cursor: exact.cursor }), { keys: [] });
      }
    },
  },
  {
    title: 'entries returns the entries of a page as get does, if the store has it',
    async run({ open }) {
      const store = await open();
      if (!store.entries) return;
      for (let n = 0; n < 10; n++) await store.put(`entry/${n}`, { n }, n % 2 === 0 ? {} : { ttl: 1000 });
      await store.put('entrz', 1);
      const found: (readonly [string, unknown])[] = [];
      const sizes: number[] = [];
      let cursor: string | undefined;
      do {
        const page = await store.entries('entry/', { limit: 4, ...(cursor !== undefined && { cursor }) });
        sizes.push(page.entries.length);
        found.push(...page.entries);
        cursor = page.cursor;
      } while (cursor !== undefined && sizes.length < 10);
      assert.deepEqual(sizes.slice(0, 3), [4, 4, 2]);
      const { keys } = await store.list('entry/');
      const got = await Promise.all(keys.map(async (key) => [key, await store.get(key)] as const));
      assert.deepEqual(found, got);
      assert.deepEqual(await store.entries('nothing'), { entries: [] });
      await store.put('entry/0', 'soon over', { ttl: 0.001 });
      while (await store.get('entry/0'));
      const { entries } = await store.entries('entry/', { limit: 1 });
      assert.deepEqual(
        entries.map(([key]) => key),
        ['entry/1'],
      );
    },
  },
  {
    title: 'scan finds unlisted entries; if the store has no scan, list finds them',
    async run({ open }) {
      const store = await open();
      const names = Array.from({ length: 40 }, (_, n) => `scan*/${n}`);
      await Promise.all(names.map((key, n) => store.put(key, n, { unlisted: n % 2 === 0, ttl: 1000 })));
      await store.put('scan/other', 1, { unlisted: true });
      await store.put('scan*/40', 1, { unlisted: true });
      await store.delete('scan*/40');
      await store.lease('scan*/lease', 60);
      const found = async (prefix: string): Promise<string[]> => {
        const keys = new Set<string>();
        let cursor: string | undefined;
        do {
          const options = cursor === undefined ? { limit: 7 } : { limit: 7, cursor };
          const page = await (store.scan ? store.scan(prefix, options) : store.list(prefix, options));
          for (const key of page.keys) keys.add(key);
          cursor = page.cursor;
        } while (cursor !== undefined);
        return [...keys].sort();
      };
      assert.deepEqual(await found('scan*/'), [...names].sort());
      assert.deepEqual(await found(''), [...names, 'scan/other'].sort());
      assert.deepEqual(await found('nothing'), []);
      const listed = new Set(await everyKey(store, 'scan*/', 7));
      for (const [n, key] of names.entries()) assert.ok(n % 2 === 0 || listed.has(key), key);
    },
  },
  {
    title: (count) => `list returns each of ${count(10_000, 40)} keys exactly once while others write`,
    async run(bench) {
      const total = bench.count(10_000, 40);
      const stable = Array.from({ length: total }, (_, n) => `stable/${String(n).padStart(6, '0')}`);
      const [reader, writer] = (await sharesHandles(bench, 2)) as [Store, Store];
      for (let at = 0; at < total; at += 500) {
        await Promise.all(stable.slice(at, at + 500).map((key) => writer.put(key, at)));
      }
      const work = busyWriter(writer, stable);
      try {
        const limit = bench.count(1000, Math.ceil(total / 6));
        for (let round = 0; round < 2; round++) {
          const keys = await everyKey(reader, 'stable/', limit, work.written);
          const found = keys.filter((key) => !key.includes('+'));
          assert.equal(new Set(keys).size, keys.length, 'a key was listed twice');
          assert.deepEqual(found.sort(), stable);
        }
      } finally {
        await work.stop();
      }
    },
  },
];

async function everyKey(
  store: Store,
  prefix: string,
  limit: number,
  between?: () => Promise<void>,
): Promise<string[]> {
  const all: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.list(prefix, cursor === undefined ? { limit } : { cursor, limit });
    assert.ok(page.keys.length <= limit);
    all.push(...page.keys);
    cursor = page.cursor;
    await between?.();
  } while (cursor !== undefined);
  return all;
}

/** Rewrites keys, and puts and deletes others between them, until stopped. */
function busyWriter(
  store: Store,
  stable: readonly string[],
): { written(): Promise<void>; stop(): Promise<void> } {
  let stopped = false;
  let count = 0;
  let told: (() => void)[] = [];
  const pick = () => stable[Math.floor(Math.random() * stable.length)] as string;
  const running = (async () => {
    while (!stopped) {
      const passing = `${pick()}+${count}`;
      await Promise.all([store.put(pick(), count), store.put(passing, count)]);
      await Promise.all([store.delete(passing), store.put(`${pick()}+stays${count % 50}`, count)]);
      count++;
      for (const tell of told) tell();
      told = [];
    }
  })();
  return {
    // Resolves after the next round of writes, so that some follow each page. A failure is reported by `stop`.
    written: () => Promise.race([running, new Promise<void>((resolve) => told.push(resolve))]),
    stop: () => {
      stopped = true;
      return running;
    },
  };
}
