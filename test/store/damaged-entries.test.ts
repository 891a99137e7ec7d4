import { createRequire } from 'node:module';
import { inspect } from 'node:util';
import { Redis } from 'ioredis';
import { openStore, type Store } from 'mcp-valise/store';
import { postgresStore } from 'mcp-valise/store/postgres';
import { redisStore } from 'mcp-valise/store/redis';
import pg from 'pg';
import { afterEach, describe, expect, it } from 'vitest';
import { service, uniqueName } from '../services.ts';
import { temporaryFolder } from './places.ts';

const redis = await service('redis');
const postgres = await service('postgres');

/** What the tests use of better-sqlite3, which comes without types. */
/** The SQLite that Node brings, if it does: better-sqlite3 is built for one version of Node. */
const builtIn = process.getBuiltinModule?.('node:sqlite' as never) as { DatabaseSync: unknown } | undefined;
const Database = (builtIn?.DatabaseSync ?? createRequire(import.meta.url)('better-sqlite3')) as new (
  file: string,
) => { prepare(sql: string): { run(...values: unknown[]): unknown }; close(): void };

const SECRET = 'top-secret-token';
/** Text that was JSON once. */
const DAMAGED = `{"token":"${SECRET}`;

const cleanUp: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const step of cleanUp.splice(0).reverse()) await step();
});

interface Place {
  readonly store: Store;
  /** Puts text in place of the entry's value. */
  damage(key: string): unknown;
}

const PLACES: Record<string, { readonly missing?: boolean; open(): Promise<Place> }> = {
  sqlite: {
    async open() {
      const { folder, remove } = temporaryFolder();
      cleanUp.push(remove);
      const store = await openStore(`sqlite:${folder}/state.db`);
      const damage = (key: string) => {
        const database = new Database(`${folder}/state.db`);
        database.prepare('UPDATE entry SET value = ? WHERE key = ?').run(DAMAGED, key);
        database.close();
      };
      return { store, damage };
    },
  },
  redis: {
    missing: !redis,
    async open() {
      const client = new Redis(redis as string);
      cleanUp.push(() => client.quit());
      const namespace = uniqueName();
      const store = await redisStore(redis as string, { namespace });
      // Wherever the driver keeps it: version and end stay, the value is cut off.
      const damage = async () => {
        for (const name of await client.keys(`*${namespace}*`)) {
          const text = (await client.type(name)) === 'string' ? await client.get(name) : null;
          if (text?.includes(SECRET)) await client.set(name, text.slice(0, text.indexOf('{')) + DAMAGED);
        }
      };
      return { store, damage };
    },
  },
  postgres: {
    missing: !postgres,
    async open() {
      const pool = new pg.Pool({ connectionString: postgres as string });
      const table = uniqueName();
      cleanUp.push(async () => {
        await pool.query(`DROP TABLE ${table}`);
        await pool.end();
      });
      const store = await postgresStore(postgres as string, { table });
      const damage = (key: string) =>
        pool.query(`UPDATE ${table} SET value = $1 WHERE key = $2`, [DAMAGED, key]);
      return { store, damage };
    },
  },
};

describe.each(Object.entries(PLACES).filter(([, { missing }]) => !missing))(
  'a damaged entry of a store in %s',
  (_, { open }) => {
    const opened = async () => {
      const place = await open();
      cleanUp.push(() => place.store.close());
      await place.store.put('a', { token: SECRET });
      await place.store.put('b', 2);
      await place.damage('a');
      return place.store;
    };

    it('A damaged entry is reported with its key and without its value', async () => {
      const store = await opened();
      const error = await store.get('a').catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({
        code: 'store-corrupt',
        message: expect.stringMatching(/^The entry "a" is damaged.*delete it/),
      });
      expect(inspect(error, { depth: 10 })).not.toContain(SECRET);
      if (store.entries) {
        const listed = await store.entries('').catch((thrown: unknown) => thrown);
        expect(listed).toMatchObject({ code: 'store-corrupt' });
        expect(inspect(listed, { depth: 10 })).not.toContain(SECRET);
      }
    });

    it('A damaged entry does not affect the others', async () => {
      const store = await opened();
      expect(await store.get('b')).toMatchObject({ value: 2 });
      expect((await store.list('')).keys).toEqual(['a', 'b']);
    });

    it('A damaged entry can be deleted', async () => {
      const store = await opened();
      expect(await store.delete('a')).toBe(true);
      expect(await store.get('a')).toBeUndefined();
      expect((await store.list('')).keys).toEqual(['b']);
    });

    it('A damaged entry can be overwritten, and counts as existing', async () => {
      const store = await opened();
      expect(await store.put('a', 1, { ifAbsent: true })).toBeUndefined();
      await store.put('a', 1);
      expect(await store.get('a')).toMatchObject({ value: 1 });
    });
  },
);
