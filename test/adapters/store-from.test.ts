import { randomUUID } from 'node:crypto';
import { storeFrom } from 'mcp-valise/adapters';
import { memoryStore } from 'mcp-valise/store';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { service } from '../services.ts';

const url = await service('postgres');

it.skipIf(url === undefined)(
  'storeFrom opens a store on a pool of pg, with compare-and-set, and leaves the pool open',
  async () => {
    const pool = new pg.Pool({ connectionString: url });
    onTestFinished(() => pool.end());
    const store = await storeFrom({ pool });
    const key = randomUUID();
    const version = await store.put(key, 1, { ifAbsent: true });
    expect(await store.put(key, 2, { ifAbsent: true })).toBeUndefined();
    expect(await store.put(key, 2, { ifVersion: version as string })).toBeDefined();
    expect(await store.put(key, 3, { ifVersion: version as string })).toBeUndefined();
    expect((await store.get(key))?.value).toBe(2);
    await store.delete(key);
    await store.close();
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  },
);

it('storeFrom returns the store of Valise behind what it is given, and refuses what cannot compare and set', async () => {
  const store = memoryStore();
  expect(await storeFrom({ client: store })).toBe(store);
  await expect(storeFrom(new Map())).rejects.toMatchObject({ code: 'invalid-argument' });
});
