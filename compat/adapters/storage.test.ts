import { randomUUID } from 'node:crypto';
import { KeyvPostgres } from '@keyv/postgres';
import KeyvRedis from '@keyv/redis';
import type { Redis } from 'ioredis';
import { Keyv } from 'keyv';
import { Keyv as Keyv6 } from 'keyv-6';
import { keyvStorage, unstorageDriver } from 'mcp-valise/adapters';
import { memoryStore } from 'mcp-valise/store';
import { Pool } from 'pg';
import { createStorage, prefixStorage } from 'unstorage';
import memoryDriver from 'unstorage/drivers/memory';
import redisDriver from 'unstorage/drivers/redis';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import * as keyv from './.work/examples/keyv.ts';
import * as unstorage from './.work/examples/unstorage.ts';
import { SHARED } from './stores.ts';

describe.each(SHARED)('unstorage on a store in %s', (_, share) => {
  it('does with its driver what it does with its own', async () => {
    const open = share();
    const storage = unstorage.openStorage(await open());
    const other = unstorage.openStorage(await open());
    await storage.setItem('a:b', { n: 1 });
    await storage.setItem('a:c', 'text');
    await storage.setItem('d', 3);
    expect(await other.getItem('a:b')).toEqual({ n: 1 });
    expect(await other.getItem('a:c')).toBe('text');
    expect(await other.getItem('d')).toBe(3);
    expect(await other.getItem('e')).toBeNull();
    expect(await other.hasItem('a:b')).toBe(true);
    expect(await other.hasItem('e')).toBe(false);
    expect((await other.getKeys()).sort()).toEqual(['a:b', 'a:c', 'd']);
    expect((await other.getKeys('a')).sort()).toEqual(['a:b', 'a:c']);
    expect(await other.getItems(['a:b', 'd'])).toEqual([
      { key: 'a:b', value: { n: 1 } },
      { key: 'd', value: 3 },
    ]);
    await storage.setItemRaw('raw', new Uint8Array([0, 255, 7]));
    expect(new Uint8Array((await other.getItemRaw<Uint8Array>('raw')) ?? [])).toEqual(
      new Uint8Array([0, 255, 7]),
    );
    await prefixStorage(storage, 'a').removeItem('b');
    expect(await other.hasItem('a:b')).toBe(false);
    await storage.setItem('soon', 1, { ttl: 0.02 });
    await expect.poll(() => other.hasItem('soon')).toBe(false);
    await storage.dispose();
    expect(await other.getItem('d')).toBe(3);
    await unstorageDriver(await open()).clear('a:');
    expect((await other.getKeys()).sort()).toEqual(['d', 'raw']);
    await other.clear();
    expect(await other.getKeys()).toEqual([]);
  });
});

describe.each([
  ['5', Keyv],
  ['6', Keyv6 as unknown as typeof Keyv],
] as const)('Keyv %s', (major, KeyvOf) => {
  it.each(SHARED)('does with a store in %s what it does with its own adapters', async (_, share) => {
    const open = share();
    const of = async (namespace?: string) =>
      new KeyvOf({ store: keyvStorage(await open()), ...(namespace && { namespace }) });
    const errors: unknown[] = [];
    const cache = await of('cache');
    cache.on('error', (error: unknown) => errors.push(error));
    const same = await of('cache');
    const other = await of('other');
    expect(await cache.set('a', { n: 1 })).toBe(true);
    expect(await same.get('a')).toEqual({ n: 1 });
    expect(await other.get('a')).toBeUndefined();
    expect(await same.has('a')).toBe(true);
    await cache.setMany([
      { key: 'b', value: 2 },
      { key: 'c', value: 3, ttl: 60_000 },
    ]);
    expect(await same.get(['a', 'b', 'c', 'd'])).toEqual([{ n: 1 }, 2, 3, undefined]);
    expect(await same.hasMany(['b', 'd'])).toEqual([true, false]);
    await other.set('a', 'theirs');
    // Keyv 5 iterates over a list of adapters that it knows by name.
    const iterator = same.iterator as (() => AsyncIterable<[string, unknown]>) | undefined;
    if (major === '6') {
      const seen: [string, unknown][] = [];
      for await (const [key, value] of iterator?.call(same) ?? []) seen.push([key, value]);
      expect(seen.sort()).toEqual([
        ['a', { n: 1 }],
        ['b', 2],
        ['c', 3],
      ]);
    }
    expect(await cache.delete('a')).toBe(true);
    expect(await cache.delete('a')).toBe(false);
    await cache.delete(['b']);
    await cache.set('soon', 1, 20);
    await expect.poll(() => same.get('soon')).toBeUndefined();
    await cache.clear();
    expect(await same.get(['b', 'c'])).toEqual([undefined, undefined]);
    expect(await other.get('a')).toBe('theirs');
    await cache.disconnect();
    expect(await other.get('a')).toBe('theirs');
    expect(errors).toEqual([]);
  });
});

describe('storeFrom', () => {
  it('opens a store on the Redis of a driver of unstorage, with compare-and-set', async () => {
    const driver = redisDriver({ url: inject('redis'), base: 'theirs' });
    const store = await unstorage.storeOf(driver);
    onTestFinished(() => (driver.getInstance as () => Redis)().disconnect());
    await compareAndSet(store);
    // What is theirs stays theirs, and their client stays open.
    const storage = createStorage({ driver });
    await storage.setItem('key', 1);
    await store.close();
    expect(await storage.getItem('key')).toBe(1);
  });

  it('opens a store on the Redis of a Keyv, with compare-and-set', async () => {
    const theirs = new Keyv(new KeyvRedis(inject('redis')));
    onTestFinished(() => theirs.disconnect());
    await theirs.set('key', 1);
    const store = await keyv.storeOf(theirs);
    await compareAndSet(store);
    await store.close();
    expect(await theirs.get('key')).toBe(1);
  });

  it('opens a store on the PostgreSQL of a Keyv, with compare-and-set', async () => {
    const theirs = new Keyv(new KeyvPostgres({ uri: inject('postgres') }));
    onTestFinished(() => theirs.disconnect());
    await theirs.set('key', 1);
    const store = await keyv.storeOf(theirs);
    await compareAndSet(store);
    await store.close();
    expect(await theirs.get('key')).toBe(1);
  });

  it('opens a store on a pool of pg, with compare-and-set, and leaves the pool open', async () => {
    const pool = new Pool({ connectionString: inject('postgres') });
    onTestFinished(() => pool.end());
    const store = await keyv.storeOf(pool as never);
    await compareAndSet(store);
    await store.close();
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });

  it('returns the store behind a driver or an adapter of Valise', async () => {
    const store = memoryStore();
    expect(await unstorage.storeOf(unstorageDriver(store))).toBe(store);
    expect(await keyv.storeOf(keyv.openKeyv(store, 'a'))).toBe(store);
    expect(await keyv.storeOf(new Keyv6({ store: keyvStorage(store) }) as never)).toBe(store);
  });

  it.each([
    ['memory', () => unstorage.storeOf(memoryDriver())],
    ['Keyv', () => keyv.storeOf(new Keyv())],
    ['Keyv', () => keyv.storeOf(new Keyv6() as never)],
    ['Map', () => keyv.storeOf(new Map() as never)],
  ])('refuses what cannot compare and set: %s', async (name, open) => {
    const refusal = open();
    await expect(refusal).rejects.toMatchObject({ code: 'invalid-argument' });
    await expect(refusal).rejects.toThrow(name);
  });
});

async function compareAndSet(store: Awaited<ReturnType<typeof keyv.storeOf>>): Promise<void> {
  const key = randomUUID();
  const version = await store.put(key, 1, { ifAbsent: true });
  expect(version).toBeDefined();
  expect(await store.put(key, 2, { ifAbsent: true })).toBeUndefined();
  expect(await store.put(key, 2, { ifVersion: version as string })).toBeDefined();
  expect(await store.put(key, 3, { ifVersion: version as string })).toBeUndefined();
  expect((await store.get(key))?.value).toBe(2);
}
