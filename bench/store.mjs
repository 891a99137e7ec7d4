// Reads, writes and updates an entry of 1 KB on every backend: Valise compared with the bare driver, keyv and unstorage.
// `update` reads an entry and writes it back if nobody else has; keyv and unstorage have no such condition and just write.
// Redis and PostgreSQL run for the duration of the bench, with 32 calls in flight; the CPU time of this process counts. At
// the end, measures what writes cost the servers: clusters of 1, 3 and 6 shards, and PostgreSQL's HOT updates
// (store/servers.mjs).
import { deepEqual } from 'node:assert/strict';
import {
  closeSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Keyv from 'keyv';
import { createStorage } from 'unstorage';
import { fileStore, memoryStore, openStore } from '../dist/store/index.js';
import { sqliteStore } from '../dist/store/sqlite/store.js';
import { startServices } from '../scripts/services.mjs';
import { openBench } from './measure.mjs';
import { measureHotUpdates, measureShards } from './store/servers.mjs';

const require = createRequire(import.meta.url);
const folder = mkdtempSync(join(tmpdir(), 'valise-bench-'));
const cleanups = [() => rmSync(folder, { recursive: true, force: true })];

/** Number of entries; more than calls in flight, because the bench should not measure how often writers collide. */
let entries = 64;
const keyOf = (index) => `session/${index % entries}`;

const value = { id: 'b7e1c2d3', user: 'alice@example.com', count: 0, roles: ['reader', 'writer'], notes: [] };
for (let note = 0; JSON.stringify(value).length < 1000; note++)
  value.notes.push({ note, text: 'duplicate of 4711' });
const changed = (before) => ({ ...before, count: before.count + 1 });

/** Creates a subject of the bench from its operations; `write` returns false if it did not write. */
const subject = ({ read, write, cas }) => ({
  get: (index) => read(keyOf(index)),
  set: (index) => write(keyOf(index), value),
  update: cas ?? (async (index) => write(keyOf(index), changed(await read(keyOf(index))))),
});

const ours = (store) => ({
  get: (index) => store.get(keyOf(index)),
  set: (index) => store.put(keyOf(index), value),
  async update(index) {
    const key = keyOf(index);
    for (;;) {
      const entry = await store.get(key);
      if (await store.put(key, changed(entry.value), { ifVersion: entry.version })) return;
    }
  },
});

const keyv = (store) => {
  const cache = new Keyv(store ? { store } : {});
  cache.on('error', (error) => {
    throw error;
  });
  cleanups.push(() => cache.disconnect());
  return subject({ read: (key) => cache.get(key), write: (key, value) => cache.set(key, value) });
};

const unstorage = async (driver) => {
  const storage = createStorage({ driver });
  cleanups.push(() => storage.dispose());
  return subject({ read: (key) => storage.getItem(key), write: (key, value) => storage.setItem(key, value) });
};

const unstorageOn = async (connector) => {
  const { createDatabase } = await import('db0');
  const database = createDatabase(connector);
  cleanups.push(() => database.dispose?.());
  return unstorage((await import('unstorage/drivers/db0')).default({ database }));
};

/** Creates the same three operations on the bare driver; `row` is `{ text, version }`. */
const bare = ({ read, write, writeIf }) => ({
  get: async (index) => JSON.parse((await read(keyOf(index))).text),
  set: async (index) => write(keyOf(index), JSON.stringify(value), nextVersion()),
  async update(index) {
    const key = keyOf(index);
    for (;;) {
      const { text, version } = await read(key);
      if (await writeIf(key, JSON.stringify(changed(JSON.parse(text))), nextVersion(), version)) return;
    }
  },
});
let versions = 0;
const nextVersion = () => `bench.${versions++}`;

async function memory() {
  const map = new Map();
  const write = (key, text, version) => map.set(key, { text, version });
  return {
    ours: ours(memoryStore()),
    'Map of JSON text': bare({
      read: (key) => map.get(key),
      write,
      writeIf: (key, text, version, before) => map.get(key).version === before && write(key, text, version),
    }),
    keyv: keyv(),
    unstorage: await unstorage((await import('unstorage/drivers/memory')).default()),
  };
}

async function file() {
  const path = join(folder, 'bare.json');
  writeFileSync(path, '{}');
  const load = () => JSON.parse(readFileSync(path, 'utf8'));
  const write = (key, text, version, document = load()) => {
    document[key] = { text, version };
    const fd = openSync(`${path}.tmp`, 'w', 0o600);
    writeFileSync(fd, JSON.stringify(document));
    fsyncSync(fd);
    closeSync(fd);
    renameSync(`${path}.tmp`, path);
    return true;
  };
  return {
    ours: ours(fileStore(join(folder, 'state.json'))),
    'JSON file, fsync + rename': bare({
      read: (key) => load()[key],
      write,
      writeIf(key, text, version, before) {
        const document = load();
        return document[key].version === before && write(key, text, version, document);
      },
    }),
    'unstorage fs (not atomic)': await unstorage(
      (await import('unstorage/drivers/fs')).default({ base: join(folder, 'unstorage') }),
    ),
  };
}

async function sqlite() {
  const builtIn = process.getBuiltinModule?.('node:sqlite')?.DatabaseSync;
  const Database = builtIn ?? require('better-sqlite3');
  const database = new Database(join(folder, 'bare.db'));
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL');
  database.exec('CREATE TABLE entry (key TEXT PRIMARY KEY, text TEXT, version TEXT)');
  const get = database.prepare('SELECT text, version FROM entry WHERE key = ?');
  const put = database.prepare(
    'INSERT INTO entry VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET text = excluded.text, version = excluded.version',
  );
  const putIf = database.prepare('UPDATE entry SET text = ?, version = ? WHERE key = ? AND version = ?');
  const peers = {
    ours: ours(sqliteStore(join(folder, 'state.db'))),
    [builtIn ? 'node:sqlite' : 'better-sqlite3']: bare({
      read: (key) => get.get(key),
      write: (key, text, version) => put.run(key, text, version),
      writeIf: (key, text, version, before) => putIf.run(text, version, key, before).changes > 0,
    }),
  };
  await optional('@keyv/sqlite', async ({ default: KeyvSqlite }) => {
    peers['@keyv/sqlite'] = keyv(new KeyvSqlite(`sqlite://${join(folder, 'keyv.db')}`));
  });
  const { default: connector } = await import('db0/connectors/better-sqlite3');
  if (!builtIn) {
    peers['unstorage db0'] = await unstorageOn(connector({ path: join(folder, 'unstorage.db') }));
  }
  return peers;
}

async function redis(url) {
  const { Redis } = require('../node_modules/ioredis');
  const client = new Redis(url);
  const other = new (require('ioredis').Redis)(url);
  cleanups.push(
    () => client.quit(),
    () => other.quit(),
  );
  const script = `local v = redis.call('HGET', KEYS[1], 'version')
    if v ~= ARGV[3] then return 0 end
    redis.call('HSET', KEYS[1], 'text', ARGV[1], 'version', ARGV[2]) return 1`;
  client.defineCommand('putIf', { numberOfKeys: 1, lua: script });
  const { default: KeyvRedis } = await import('@keyv/redis');
  const { default: driver } = await import('unstorage/drivers/redis');
  return {
    ours: ours(await opened(url)),
    ioredis: bare({
      read: async (key) => {
        const [text, version] = await client.hmget(`bare:${key}`, 'text', 'version');
        return { text, version };
      },
      write: (key, text, version) => client.hset(`bare:${key}`, 'text', text, 'version', version),
      writeIf: (key, text, version, before) => client.putIf(`bare:${key}`, text, version, before),
    }),
    '@keyv/redis': keyv(new KeyvRedis(url)),
    'unstorage redis': await unstorage(driver({ url, base: 'unstorage' })),
  };
}

async function postgres(url) {
  const { default: pg } = await import('pg');
  const pool = new pg.Pool({ connectionString: url, max: 10 });
  cleanups.push(() => pool.end());
  await pool.query('CREATE TABLE IF NOT EXISTS bare_entry (key TEXT PRIMARY KEY, text TEXT, version TEXT)');
  const query = (name, text, values) => pool.query({ name, text, values });
  const { default: KeyvPostgres } = await import('@keyv/postgres');
  const { default: connector } = await import('db0/connectors/postgresql');
  return {
    ours: ours(await opened(url)),
    pg: bare({
      read: async (key) =>
        (await query('get', 'SELECT text, version FROM bare_entry WHERE key = $1', [key])).rows[0],
      write: (...row) =>
        query(
          'put',
          'INSERT INTO bare_entry VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE SET text = excluded.text, version = excluded.version',
          row,
        ),
      writeIf: async (key, text, version, before) => {
        const sql = 'UPDATE bare_entry SET text = $2, version = $3 WHERE key = $1 AND version = $4';
        return (await query('putIf', sql, [key, text, version, before])).rowCount > 0;
      },
    }),
    '@keyv/postgres': keyv(new KeyvPostgres({ uri: url })),
    'unstorage db0': await unstorageOn(connector({ url })),
  };
}

async function opened(url) {
  const store = await openStore(url);
  cleanups.push(() => store.close());
  return store;
}

/** Uses a package that cannot be installed everywhere, because it is compiled during installation. */
async function optional(name, use) {
  const module = await import(name).catch((error) => void bench.note(`  without ${name}: ${error.message}`));
  if (module) await use(module);
}

/** Checks that get and update return what was set, so that no subject is fast by losing data. */
async function check(name, { get, set, update }) {
  for (let index = 0; index < entries; index++) await set(index);
  const got = await get(0);
  deepEqual(got.value ?? got, value, name);
  await update(0);
  const after = await get(0);
  deepEqual((after.value ?? after).count, 1, name);
}

const bench = openBench('store', { rounds: 15, slotMs: 30 });

async function compare(backend, subjects, settings) {
  for (const [name, subject] of Object.entries(subjects)) await check(name, subject);
  const { ours, ...peers } = subjects;
  for (const operation of ['get', 'set', 'update']) {
    const others = Object.entries(peers).map(([name, peer], index) => [
      name,
      { run: peer[operation], goal: index === 0 ? 1 / 1.3 : 1 },
    ]);
    await bench.compare(`${backend} ${operation}`, {
      ours: ours[operation],
      peers: Object.fromEntries(others),
      ...settings,
    });
  }
}

let services;
try {
  await compare('memory', await memory());
  // Disk speed varies, so longer slots even it out. Uses as many entries as a client has servers.
  entries = 16;
  await compare('file', await file(), { slotMs: 100, warmUpMs: 500 });
  entries = 64;
  await compare('file, 32 in flight:', await file(), { inFlight: 32, slotMs: 100, warmUpMs: 500 });
  await compare('sqlite', await sqlite());
  services = await startServices();
  await compare('redis', await redis(services.urls.redis), { inFlight: 32 });
  // Ten connections must be opened, and their statements prepared, before the measurement starts.
  await compare('postgres', await postgres(services.urls.postgres), {
    inFlight: 32,
    slotMs: 100,
    warmUpMs: 1500,
  });
  for (const shards of [1, 3, 6]) await measureShards(bench, shards);
  await measureHotUpdates(bench);
  bench.note(
    '\nWhat stored sessions on Redis add to a call, beside connect-redis: npm run bench -- sessions',
  );
} finally {
  for (const clean of cleanups.reverse()) await clean();
  await services?.stop();
}
bench.close();
