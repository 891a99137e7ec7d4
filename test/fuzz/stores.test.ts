import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { openStore, type Store, sealedStore, ValiseError } from 'mcp-valise/store';
import { postgresStore } from 'mcp-valise/store/postgres';
import { redisStore } from 'mcp-valise/store/redis';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { service, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { temporaryFolder } from '../store/places.ts';
import { mutateBytes, mutateText, oddValue } from './mutate.ts';
import type { Random } from './random.ts';
import { type Case, fuzz } from './run.ts';
import { KEYS } from './server.ts';

const OWNERS = ['alice', 'bob', 'carol'] as const;
/** What an owner has in the store; said twice, so that no small change makes one of another. */
const belonging = (owner: string) => ({
  owner,
  secret: `only for ${owner}`,
  more: [owner, 1, null, { of: owner }],
});
const SEALED = [{ sealed: false }, { sealed: true }];
const { folder, remove } = temporaryFolder();
afterAll(() => remove());

async function fill(store: Store): Promise<void> {
  for (const owner of OWNERS) await store.put(owner, belonging(owner));
}

/** The outcome of a call: a value, or the code of an error that must be one of ours and tell nothing. */
async function codeOr<Value>(work: () => Promise<Value>): Promise<{ value: Value } | { code: string }> {
  try {
    return { value: await work() };
  } catch (error) {
    if (!(error instanceof ValiseError)) throw error;
    const told = `${error.message} ${(error.cause as Error | undefined)?.message ?? ''}`;
    if (told.includes('only for')) throw new Error(`An error tells what was stored: ${told}`);
    return { code: error.code };
  }
}

/** Uses a store after something happened to it. */
async function use(store: Store, sealed: boolean, { count }: Case): Promise<void> {
  for (const owner of OWNERS) {
    const got = await codeOr(() => store.get(owner));
    if ('code' in got) {
      count(got.code);
      continue;
    }
    const value = got.value?.value;
    const text = JSON.stringify(value);
    count(value === undefined ? 'absent' : text === JSON.stringify(belonging(owner)) ? 'whole' : 'other');
    for (const other of OWNERS)
      if (other !== owner && text === JSON.stringify(belonging(other)))
        throw new Error(`${owner} got what belongs to ${other}.`);
    if (sealed && value !== undefined) expect(value).toEqual(belonging(owner));
  }
  await codeOr(() => store.list(''));
  await codeOr(() => store.put('dave', belonging('dave'), { ttl: 60 }));
  await codeOr(() => store.delete('dave'));
}

describe.each(SEALED)('a damaged file (sealed: $sealed)', ({ sealed }) => {
  it.each([
    { scheme: 'file', short: 100, soak: 700 },
    { scheme: 'sqlite', short: 40, soak: 500 },
  ])(
    'A damaged file of a $scheme store returns the stored value, nothing, or a typed error',
    { timeout: 600_000 },
    async ({ scheme, ...cases }) => {
      const options = sealed ? { keys: KEYS } : {};
      const [whole, path] = [`${folder}/${scheme}-${sealed}`, `${folder}/${scheme}-${sealed}-damaged`];
      const store = await openStore(`${scheme}:${whole}`, options);
      await fill(store);
      await store.close();
      const bytes = readFileSync(whole);
      await fuzz({ name: `${scheme} store, ${sealed ? 'sealed' : 'plain'}`, ...cases }, async (one) => {
        const damaged = mutateBytes(one.random, bytes);
        one.input({
          scheme,
          sealed,
          damaged: damaged.length > 9000 ? differences(bytes, damaged) : damaged.toString('latin1'),
        });
        copyFileSync(whole, path);
        writeFileSync(path, damaged);
        const opened = await codeOr(() => openStore(`${scheme}:${path}`, options));
        if ('code' in opened) one.count(opened.code);
        else {
          await use(opened.value, sealed, one);
          await opened.value.close();
        }
        for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true });
      });
    },
  );
});

/** Where two large files differ first, in words. */
function differences(before: Buffer, after: Buffer): string {
  const at = before.findIndex((byte, index) => byte !== after[index]);
  return `${before.length} bytes became ${after.length}, different from ${at}: ${after.subarray(at, at + 64).toString('hex')}`;
}

/** A row that is not what Valise wrote. */
function damage(random: Random, text: string, others: readonly string[]): string {
  switch (random.below(others.length > 0 ? 5 : 4)) {
    case 0:
      return random.pick([
        '',
        ' ',
        'null',
        '1',
        '"x"',
        '{}',
        '[]',
        '{"a":',
        '0 0 ',
        '1 0 {}',
        'x x x',
        '\u0001',
      ]);
    case 1:
      return JSON.stringify(oddValue(random)).replaceAll('\\u0000', '');
    case 4:
      // The row of another one, cut into this one.
      return text.slice(0, random.below(text.length)) + random.pick(others).slice(random.below(text.length));
    default:
      return mutateText(random, text).replaceAll('\0', '').toWellFormed();
  }
}

const [redisUrl, postgresUrl] = [await service('redis'), await service('postgres')];

interface Rows {
  open(options: { keys?: string }): Promise<Store>;
  read(key: string): Promise<string>;
  write(key: string, text: string): Promise<void>;
  close(): Promise<void>;
}

/** As much of better-sqlite3 as is used here; it has no types of its own. */
interface Database {
  prepare(sql: string): { get(...values: string[]): unknown; run(...values: string[]): unknown };
  close(): void;
}
const { default: BetterSqlite } = (await import('better-sqlite3' as string)) as {
  default: new (path: string) => Database;
};

const ROWS: Record<string, () => Promise<Rows>> = {
  async sqlite() {
    const path = `${folder}/${uniqueName()}.db`;
    let database: Database | undefined;
    const raw = () => (database ??= new BetterSqlite(path));
    return {
      open: ({ keys }) => openStore(`sqlite:${path}`, keys ? { keys } : {}),
      read: async (key) =>
        (raw().prepare('SELECT value FROM entry WHERE key = ?').get(key) as { value: string }).value,
      write: async (key, text) =>
        void raw().prepare('UPDATE entry SET value = ? WHERE key = ?').run(text, key),
      close: async () => void database?.close(),
    };
  },
  async redis() {
    const namespace = uniqueName();
    const client = new Redis(redisUrl as string);
    const names = new Map<string, string>();
    const found = async (key: string): Promise<string> => {
      const known = names.get(key);
      if (known !== undefined) return known;
      const all = await client.keys(`*${namespace}*`);
      names.set(key, all.find((name) => name.endsWith(`:${key}`)) ?? '');
      return found(key);
    };
    return {
      open: async ({ keys }) =>
        keys
          ? sealed(await redisStore(redisUrl as string, { namespace }))
          : redisStore(redisUrl as string, { namespace }),
      read: async (key) => (await client.get(await found(key))) ?? '',
      write: async (key, text) => void (await client.set(await found(key), text)),
      close: async () => client.disconnect(),
    };
  },
  async postgres() {
    const table = uniqueName();
    const pool = new pg.Pool({ connectionString: postgresUrl as string, max: 1 });
    return {
      open: async ({ keys }) =>
        keys
          ? sealed(await postgresStore(postgresUrl as string, { table }))
          : postgresStore(postgresUrl as string, { table }),
      read: async (key) =>
        (await pool.query(`SELECT value FROM ${table} WHERE kind = 0 AND key = $1`, [key])).rows[0].value,
      write: async (key, text) =>
        void (await pool.query(`UPDATE ${table} SET value = $2 WHERE kind = 0 AND key = $1`, [key, text])),
      close: async () => {
        await pool.query(`DROP TABLE ${table}`);
        await pool.end();
      },
    };
  },
};

const sealed = (store: Store): Store => sealedStore(store, KEYS);

const DRIVERS = [
  { driver: 'sqlite', isHere: true },
  { driver: 'redis', isHere: redisUrl !== undefined },
  { driver: 'postgres', isHere: postgresUrl !== undefined },
].flatMap((driver) => SEALED.map((way) => ({ ...driver, ...way })));

describe.each(DRIVERS)('damaged rows of $driver (sealed: $sealed)', ({ driver, isHere, sealed }) => {
  let rows: Rows;
  beforeAll(async () => {
    if (isHere) rows = await (ROWS[driver] as () => Promise<Rows>)();
  });
  afterAll(() => rows?.close());

  const needed = { timeout: 600_000, ...because('needs a server that is not here') };
  it.skipIf(!isHere)('Damaged rows return the stored value, nothing, or a typed error', needed, async () => {
    const store = await rows.open(sealed ? { keys: KEYS } : {});
    await fill(store);
    const whole = await Promise.all(OWNERS.map((owner) => rows.read(owner)));
    await fuzz(
      { name: `rows of ${driver}, ${sealed ? 'sealed' : 'plain'}`, short: 100, soak: 500 },
      async (one) => {
        const at = one.random.below(OWNERS.length);
        const text = damage(
          one.random,
          whole[at] as string,
          // Without a seal nobody can tell that a row is another's.
          sealed ? whole.filter((_, other) => other !== at) : [],
        );
        one.input({ driver, sealed, row: text });
        await rows.write(OWNERS[at] as string, text);
        await use(store, sealed, one);
        await rows.write(OWNERS[at] as string, whole[at] as string);
      },
    );
    await store.close();
  });
});
