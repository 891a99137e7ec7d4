import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { storeContract } from 'mcp-valise/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openStore } from '../../src/store/index.ts';
import { type Database, loadSqlite, openDatabase } from '../../src/store/sqlite/library.ts';
import { sqliteStore } from '../../src/store/sqlite/store.ts';
import { because } from '../skip.ts';
import { asUser, userFolder } from './elsewhere.ts';
import { soak, temporaryFolder, tsx } from './places.ts';

storeContract(
  () => {
    const { folder, remove } = temporaryFolder();
    const file = `${folder}/state.db`;
    return { open: () => sqliteStore(file), url: `sqlite:${file}`, remove };
  },
  { describe, it },
  { name: 'sqlite', execArgv: tsx, scale: soak ? 5 : 0.25 },
);

const builtIn = process.getBuiltinModule?.('node:sqlite') !== undefined;

describe('a SQLite store', () => {
  let folder: string;
  let file: string;
  let remove: () => void;
  beforeEach(() => {
    ({ folder, remove } = temporaryFolder());
    file = `${folder}/state.db`;
  });
  afterEach(() => remove());

  it('A SQLite store uses the SQLite of Node if there is one, and better-sqlite3 otherwise', async () => {
    await sqliteStore(file).close();
    const loaded = Object.keys(createRequire(import.meta.url).cache).some((path) =>
      path.includes('better-sqlite3'),
    );
    expect(loaded).toBe(!builtIn);
  });

  it.each([
    ['is not there', 'better-sqlite3'],
    ['was not built for this system', 'bindings'],
  ])(
    'A SQLite store says what to install if there is neither, and creates nothing: the package %s',
    (_, missing) => {
      const { folder, remove } = userFolder();
      const blocked = `data:text/javascript,import{Module}from"node:module";const load=Module._load;Module._load=(name,...rest)=>{if(name==="${missing}")throw new Error("not found");return load(name,...rest)}`;
      const flags = ['--import', blocked, ...(builtIn ? ['--no-experimental-sqlite'] : [])];
      const [opened] = asUser([['open', `sqlite:${folder}/.valise/state.db`]], { flags });
      expect(opened).toMatchObject({
        code: 'missing-package',
        message: expect.stringContaining('npm install better-sqlite3@12'),
      });
      expect(readdirSync(folder)).toEqual([]);
      remove();
    },
  );

  it('A SQLite store waits for a writer in another process without blocking this one', async () => {
    const store = sqliteStore(file);
    const other = openDatabase(file);
    other.exec('BEGIN IMMEDIATE');
    let ticks = 0;
    const ticking = setInterval(() => ticks++, 1);
    const putting = store.put('a', 1);
    const leasing = store.lease('b', 60);
    while (ticks < 20) await new Promise(setImmediate);
    clearInterval(ticking);
    expect((await store.get('a'))?.value).toBeUndefined();
    other.exec('COMMIT');
    other.close();
    expect(typeof (await putting)).toBe('string');
    expect(await leasing).toBeDefined();
    await store.close();
  });

  it('A SQLite store waits for a writer in another process also when it closes', async () => {
    const store = sqliteStore(file);
    const other = openDatabase(file);
    other.exec('BEGIN IMMEDIATE');
    const putting = store.put('a', 1);
    const closing = store.close();
    other.exec('COMMIT');
    other.close();
    expect(typeof (await putting)).toBe('string');
    await closing;
    expect((await (await openStore(`sqlite:${file}`)).get('a'))?.value).toBe(1);
  });

  it('A SQLite store deletes expired entries', async () => {
    const store = sqliteStore(file);
    await store.lease('over', 0.01);
    await Promise.all(Array.from({ length: 200 }, (_, n) => store.put(`over/${n}`, n, { ttl: 0.01 })));
    while (await store.get('over/199'));
    for (let n = 0; n < 130; n++) await store.put('now', n, { ttl: 60 });
    await store.close();
    const database = openDatabase(file);
    expect(database.prepare('SELECT count(*) AS n FROM entry').get()).toEqual({ n: 1 });
    expect(database.prepare('SELECT count(*) AS n FROM lease').get()).toEqual({ n: 0 });
    database.close();
  });

  it('A SQLite store keeps the fence rising when all leases are gone and the store is opened again', async () => {
    let last = 0;
    for (let round = 0; round < 3; round++) {
      const store = sqliteStore(file);
      const lease = await store.lease('job', 60);
      expect(lease?.fence).toBeGreaterThan(last);
      last = lease?.fence as number;
      await lease?.release();
      await store.close();
    }
  });

  it.each([1, 2, 3, 4])(
    'A SQLite store opens if another process creates it just before look %i at the new file',
    async (at) => {
      const prototype = loadSqlite().prototype as Database;
      const { prepare } = prototype;
      let looks = 0;
      prototype.prepare = function (sql) {
        if (++looks === at) void sqliteStore(file).close();
        return prepare.call(this, sql);
      };
      const store = (() => {
        try {
          return sqliteStore(file);
        } finally {
          prototype.prepare = prepare;
        }
      })();
      expect(looks).toBeGreaterThanOrEqual(at);
      expect(await store.put('a', 1)).toBeDefined();
      await store.close();
    },
  );

  it.each(['removed', 'replaced'])(
    'A SQLite store fails if its file is %s while it is open, and says to open it again',
    async (how) => {
      const store = sqliteStore(file);
      await store.put('a', 1);
      for (const part of ['', '-wal', '-shm']) rmSync(file + part);
      const other = how === 'replaced' ? sqliteStore(file) : undefined;
      await other?.put('b', 1);
      const failed = expect.objectContaining({
        code: 'store-failed',
        message: expect.stringMatching(/removed or replaced.*open the store again/is),
      });
      await expect.poll(() => store.put('a', 2).catch((error) => error), { timeout: 20_000 }).toEqual(failed);
      await expect(store.get('a')).rejects.toEqual(failed);
      await store.close();
      const again = sqliteStore(file);
      await again.put('c', 1);
      expect((await again.list('')).keys).toEqual(other ? ['b', 'c'] : ['c']);
      await Promise.all([again.close(), other?.close()]);
    },
  );

  it.runIf(existsSync('/proc/locks'))(
    'A SQLite store keeps its lock if this process opens the same file again',
    because('needs /proc/locks'),
    async () => {
      // Without it the last of the others to close takes the file beside the database away, and with it what is written later.
      const isLocked = () => {
        const { ino } = statSync(file);
        return new RegExp(` ${process.pid} \\S+:${ino} `).test(readFileSync('/proc/locks', 'utf8'));
      };
      const store = sqliteStore(file);
      expect(isLocked()).toBe(true);
      const second = sqliteStore(file);
      expect(isLocked()).toBe(true);
      await Promise.all([store.close(), second.close()]);
    },
  );

  it('Many processes can open a new SQLite store at once', async () => {
    const stores = await Promise.all(Array.from({ length: 8 }, () => openStore(`sqlite:${file}`)));
    await Promise.all(stores.map((store, n) => store.put(`${n}`, n)));
    expect((await stores[0]!.list('')).keys).toHaveLength(8);
    await Promise.all(stores.map((store) => store.close()));
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });
});
