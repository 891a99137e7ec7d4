import { inspect } from 'node:util';
import { Redis } from 'ioredis';
import { redisStore } from 'mcp-valise/store/redis';
import { storeContract } from 'mcp-valise/testing';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openBus, openStore } from '../../src/store/index.ts';
import type { Store } from '../../src/store/types.ts';
import { noServices, type Service, service, startRedis, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { withoutPackages } from './elsewhere-packages.ts';
import { soak, tsx } from './places.ts';

const url = (await service('redis')) as string;

describe.skipIf(!url)('the Redis store', because('needs Redis'), () => {
  storeContract(
    () => {
      const namespace = uniqueName();
      return {
        open: () => redisStore(url, { namespace }),
        process: {
          module: new URL('../../src/store/redis/index.ts', import.meta.url),
          export: 'redisStore',
          args: [url, { namespace }],
        },
      };
    },
    { describe, it },
    { name: 'redis', execArgv: tsx, scale: soak ? 1 : 0.25 },
  );
});

describe.skipIf(!url)('the Redis store and bus, by URL', because('needs Redis'), () => {
  it('openStore and openBus open Redis', async () => {
    const prefix = uniqueName();
    const store = await openStore(url, { prefix, timeout: '5s' });
    const bus = await openBus(url, { timeout: '5s' });
    const version = await store.put('a', 1, { ttl: 60 });
    expect(await store.get('a')).toMatchObject({ value: 1, version });
    const heard: unknown[] = [];
    await bus.subscribe(prefix, (message) => heard.push(message));
    await bus.publish(prefix, 'hello');
    await expect.poll(() => heard).toEqual(['hello']);
    await Promise.all([store.close(), bus.close()]);
  });
});

describe.skipIf(!url)('details of the Redis store', because('needs Redis'), () => {
  const redis = new Redis(url, { lazyConnect: true });
  let namespace: string;
  let store: Store;
  beforeEach(async () => {
    namespace = uniqueName();
    store = await redisStore(url, { namespace });
  });
  afterEach(() => store?.close());
  afterAll(() => redis.disconnect());
  const ended = (key: string) => expect.poll(() => store.get(key), { timeout: 20_000 }).toBeUndefined();

  /** The names in Redis of everything in the namespace. */
  const names = async (pattern = '*') => (await redis.keys(`${namespace}:${pattern}`)).sort();
  const indexed = async () => {
    const indexes = await Promise.all((await names('{*}:e')).map((index) => redis.zrange(index, '0', '-1')));
    return indexes.flat().sort();
  };

  it('The Redis store puts an entry, its index and its lease under one hash tag, and spreads keys over all tags', async () => {
    for (let n = 0; n < 500; n++) await store.put(`key/${n}`, n, { ttl: 60 });
    await store.lease('key/0', 60);
    const tags = new Set((await names('{*}:e:*')).map((name) => /\{(.*?)\}/.exec(name)![1]));
    expect(tags.size).toBe(60);
    const lease = (await names('{*}:l:*'))[0]!;
    expect(await names('{*}:e:key/0')).toEqual([lease.replace(':l:', ':e:')]);
  });

  it('The Redis store writes an unlisted entry without an index, finds it by its key, and omits it from lists', async () => {
    const version = await store.put('hidden', 1, { ttl: 60, unlisted: true });
    expect(await store.get('hidden')).toMatchObject({ value: 1, version });
    expect(await store.put('hidden', 2, { ifAbsent: true, unlisted: true })).toBeUndefined();
    expect(await store.put('hidden', 2, { ifVersion: version!, unlisted: true })).toEqual(expect.any(String));
    expect(await store.list('')).toEqual({ keys: [] });
    expect(await names('{*}:e')).toEqual([]);
  });

  it('The Redis store refuses to continue a scan that another server began', async () => {
    await store.put('a', 1);
    await expect(store.scan!('', { cursor: 'f00d 17' })).rejects.toMatchObject({
      code: 'store-unavailable',
      outcome: 'not-done',
      next: expect.stringContaining('Start over'),
    });
  });

  it('The Redis store moves entries of format 1 to the current format, with versions and lifetimes', async () => {
    const old = uniqueName();
    const end = Date.now() + 60_000;
    await redis.set(`{${old}}:entry:a`, 'v1 0 {"n":1}');
    await redis.set(`{${old}}:entry:b`, `v2 ${end} [2]`, 'PX', 60_000);
    await redis.zadd(`{${old}}:entry`, 0, 'a', 0, 'b', 0, 'expired');
    await redis.zadd(`{${old}}:ends`, end, 'b');
    // Interrupted before: one entry had been copied and not yet removed, and has been changed since.
    await redis.set(`{${old}}:entry:c`, 'v3 0 "old"');
    await redis.zadd(`{${old}}:entry`, 0, 'c');
    const interrupted = await redisStore(url, { namespace: old });
    await interrupted.put('c', 'new');
    await redis.set(`{${old}}:entry:c`, 'v3 0 "old"');
    await redis.zadd(`{${old}}:entry`, 0, 'c');
    await redis.del(`${old}:{layout}`);
    const upgraded = await redisStore(url, { namespace: old });
    expect(await upgraded.get('a')).toEqual({ value: { n: 1 }, version: 'v1' });
    expect(await upgraded.get('b')).toEqual({ value: [2], version: 'v2', expiresAt: end });
    expect(await upgraded.get('c')).toMatchObject({ value: 'new' });
    expect((await upgraded.list('')).keys).toEqual(['a', 'b', 'c']);
    expect(await redis.keys(`{${old}}*`)).toEqual([]);
    await Promise.all([interrupted.close(), upgraded.close()]);
  });

  it('The Redis store moves entries of format 2, listed or not, to the current tags, with versions and lifetimes', async () => {
    const old = uniqueName();
    const end = Date.now() + 60_000;
    await redis.set(`${old}:{layout}`, '2');
    await redis.set(`${old}:{21}:e:a`, 'v1 0 {"n":1}');
    await redis.set(`${old}:{21}:e:b`, `v2 ${end} [2]`, 'PX', 60_000);
    await redis.zadd(`${old}:{21}:e`, 0, 'a', 0, 'b', 0, 'expired');
    await redis.set(`${old}:{1c}:e:unlisted`, 'v3 0 "hidden"');
    await redis.set(`${old}:{1c}:f`, '17');
    const upgraded = await redisStore(url, { namespace: old });
    expect(await upgraded.get('a')).toEqual({ value: { n: 1 }, version: 'v1' });
    expect(await upgraded.get('b')).toEqual({ value: [2], version: 'v2', expiresAt: end });
    expect(await upgraded.get('unlisted')).toEqual({ value: 'hidden', version: 'v3' });
    expect((await upgraded.list('')).keys).toEqual(['a', 'b']);
    expect((await redis.keys(`${old}:{21}*`)).concat(await redis.keys(`${old}:{1c}*`))).toEqual([]);
    expect(await redis.get(`${old}:{layout}`)).toBe('3');
    // Interrupted before: an entry was copied and not yet removed, and has been changed since.
    await upgraded.put('a', 'new');
    await redis.set(`${old}:{layout}`, '2');
    await redis.set(`${old}:{21}:e:a`, 'v1 0 {"n":1}');
    const again = await redisStore(url, { namespace: old });
    expect(await again.get('a')).toMatchObject({ value: 'new' });
    expect(await redis.keys(`${old}:{21}*`)).toEqual([]);
    await Promise.all([upgraded.close(), again.close()]);
  });

  it('The Redis store refuses a format of a later version and changes nothing', async () => {
    const later = uniqueName();
    await redis.set(`${later}:{layout}`, '4');
    await expect(redisStore(url, { namespace: later })).rejects.toMatchObject({ code: 'store-newer' });
    expect(await redis.keys(`*${later}*`)).toEqual([`${later}:{layout}`]);
  });

  it('The Redis store keeps namespaces apart', async () => {
    const other = await redisStore(url, { namespace: uniqueName() });
    await store.put('a', 1);
    expect(await other.get('a')).toBeUndefined();
    expect(await other.list('')).toEqual({ keys: [] });
    await other.close();
  });

  it('The Redis store refuses a namespace that would break the hash tag', async () => {
    for (const bad of ['', 'a{b', '}', 'n'.repeat(201)]) {
      await expect(redisStore(url, { namespace: bad })).rejects.toMatchObject({
        code: 'store-invalid',
      });
    }
  });

  it('The Redis store removes expired keys from its index when a list meets them', async () => {
    await store.put('ends', 1, { ttl: 0.05 });
    await store.put('stays', 1);
    await ended('ends');
    expect(await indexed()).toEqual(['ends', 'stays']);
    expect((await store.list('')).keys).toEqual(['stays']);
    expect(await indexed()).toEqual(['stays']);
  });

  it('The Redis store removes expired keys from its index with later writes, without any list or read', async () => {
    await Promise.all(Array.from({ length: 200 }, (_, n) => store.put(`ends/${n}`, 1, { ttl: 0.05 })));
    await ended('ends/199');
    let written = 0;
    await expect
      .poll(
        async () => {
          for (let n = 0; n < 100; n++) await store.put(`writes/${written++}`, 1, { ttl: 60 });
          return (await indexed()).filter((key) => key.startsWith('ends/')).length;
        },
        { timeout: 60_000, interval: 1 },
      )
      .toBeLessThan(20);
  });

  it('The Redis store fills pages even if most keys of its index have expired', async () => {
    await Promise.all(
      Array.from({ length: 300 }, (_, n) => store.put(`k/${1000 + n}`, n, n % 30 === 0 ? {} : { ttl: 0.05 })),
    );
    await ended('k/1299');
    const first = await store.list('k/', { limit: 6 });
    expect(first.keys).toEqual(['k/1000', 'k/1030', 'k/1060', 'k/1090', 'k/1120', 'k/1150']);
    const second = await store.list('k/', { limit: 6, cursor: first.cursor! });
    expect(second).toEqual({ keys: ['k/1180', 'k/1210', 'k/1240', 'k/1270'] });
  });

  it('The Redis store lists more keys at once than one script reads', async () => {
    await Promise.all(Array.from({ length: 2500 }, (_, n) => store.put(`many/${n}`, n)));
    const { keys, cursor } = await store.list('many/', { limit: 10_000 });
    expect(new Set(keys).size).toBe(2500);
    expect(cursor).toBeUndefined();
  });

  it('The Redis store accepts any text as a cursor, a prefix or a version', async () => {
    await store.put('b', 1);
    for (const odd of ['\0', '\ud800', '(', '[', '+', '-', 'a b', '']) {
      expect((await store.list('', { cursor: odd })).keys.length).toBeLessThanOrEqual(1);
      expect((await store.list(odd || 'x')).keys).toEqual([]);
      expect(await store.put('b', 2, { ifVersion: odd })).toBeUndefined();
      expect(await store.delete('b', { ifVersion: odd })).toBe(false);
    }
    const { version } = (await store.get('b'))!;
    expect(await store.put('b', 2, { ifVersion: `${version} 0` })).toBeUndefined();
    expect(await store.put('b', 2, { ifVersion: version, ifAbsent: true })).toBeUndefined();
    expect((await store.list('b', { cursor: 'a' })).keys).toEqual(['b']);
    expect((await store.get('b'))?.value).toBe(1);
  });

  it('The Redis store continues when the server has forgotten its scripts', async () => {
    await store.put('a', 1);
    await redis.script('FLUSH');
    expect(await store.put('a', 2)).toEqual(expect.any(String));
    expect((await store.list('')).keys).toEqual(['a']);
  });

  it('The Redis store reports that another program wrote into its namespace', async () => {
    await store.put('a', 1);
    const name = (await names('{*}:e:a'))[0]!;
    for (const text of ['nonsense', 'v 0 {broken', ' 0 1', '']) {
      await redis.set(name, text);
      await expect(store.get('a')).rejects.toMatchObject({ code: 'store-corrupt' });
    }
    await redis.del(name);
    await redis.lpush(name, 'x');
    await expect(store.get('a')).rejects.toMatchObject({ code: 'store-failed' });
    await redis.del(name);
  });
});

describe.skipIf(noServices)(
  'the Redis store on failing and restricted servers',
  because('needs servers'),
  () => {
    const servers: Service[] = [];
    const start = async (...args: string[]) => {
      const server = await startRedis({ args });
      servers.push(server);
      return server;
    };
    afterAll(() => Promise.all(servers.map((server) => server.stop())));

    it('The Redis store never repeats a version or a fence, even if the server lost all its data', async () => {
      const server = await start();
      const redis = new Redis(server.url);
      const store = await redisStore(server.url);
      const versions = new Set<unknown>();
      let fence = 0;
      for (let round = 0; round < 3; round++) {
        versions.add(await store.put('a', 1));
        const lease = await store.lease('a', 60);
        expect(lease?.fence).toBeGreaterThan(fence);
        expect(Number.isSafeInteger(lease?.fence)).toBe(true);
        fence = lease!.fence;
        await redis.flushall();
      }
      expect(versions.size).toBe(3);
      redis.disconnect();
      await store.close();
    });

    it('The Redis store fails at once with store-denied if user or password are wrong, and shows neither', async () => {
      const server = await start('--requirepass', 'right-password');
      const at = (credentials: string) => `redis://${credentials}127.0.0.1:${server.port}`;
      for (const credentials of ['', ':wrong-password@', 'user:wrong-password@']) {
        const error = await redisStore(at(credentials), { timeout: 20 }).catch((error: Error) => error);
        expect(error).toMatchObject({ code: 'store-denied' });
        expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('wrong-password');
      }
      const store = await redisStore(at(':right-password@'));
      expect(await store.put('a', 1)).toEqual(expect.any(String));
      expect(inspect(store, { depth: 9, showHidden: true })).not.toContain('right-password');
      await store.close();
    });

    it('The Redis store leaves one set of listeners on its client, however many operations wait for the server', async () => {
      const server = await start();
      const redis = new Redis(server.url);
      redis.on('error', () => {});
      const store = await redisStore(redis, { timeout: 1 });
      await store.put('a', 1);
      const before = redis.listenerCount('ready');
      await server.stop();
      await expect.poll(() => redis.status).not.toBe('ready');
      const waiting = Array.from({ length: 30 }, () => store.get('a').catch(() => undefined));
      await expect.poll(() => redis.listenerCount('ready')).toBeGreaterThan(before);
      expect(redis.listenerCount('ready')).toBe(before + 1);
      await Promise.all(waiting);
      redis.disconnect();
    });

    it('The Redis store fails with store-read-only on a replica, and still reads', async () => {
      const primary = await start();
      const source = await redisStore(primary.url);
      await source.put('a', 1);
      const replica = await start('--replicaof', '127.0.0.1', String(primary.port));
      const store = await redisStore(replica.url, { timeout: 2 });
      await expect.poll(() => store.get('a'), { timeout: 20_000 }).toMatchObject({ value: 1 });
      await expect(store.put('a', 2)).rejects.toMatchObject({ code: 'store-read-only' });
      expect(await store.get('a')).toMatchObject({ value: 1 });
      await Promise.all([store.close(), source.close()]);
    });

    it('The Redis store fails with store-full if the server is out of memory, keeps its entries, and accepts deletes', async () => {
      const server = await start('--maxmemory', '6mb', '--maxmemory-policy', 'noeviction');
      const store = await redisStore(server.url);
      const text = 'x'.repeat(200_000);
      let count = 0;
      const error = await (async () => {
        for (; count < 100; count++) await store.put(`k${count}`, { text });
      })().catch((error) => error);
      expect(error).toMatchObject({ code: 'store-full' });
      expect((await store.list('')).keys.length).toBe(count);
      expect((await store.get('k0'))?.value).toEqual({ text });
      for (let n = 0; n < count; n++) expect(await store.delete(`k${n}`)).toBe(true);
      expect(await store.put('again', 1)).toEqual(expect.any(String));
      await store.close();
    });
  },
);

describe.skipIf(!url)('the Redis store, in a database of the server', because('needs Redis'), () => {
  it('The Redis store uses only the database that the URL names', async () => {
    const prefix = uniqueName();
    const [three, query, zero] = await Promise.all(
      ['/3', '?db=3', '/'].map((database) => openStore(`${url}${database}`, { prefix })),
    );
    await three!.put('a', 1);
    expect((await query!.get('a'))?.value).toBe(1);
    expect(await zero!.get('a')).toBeUndefined();
    await Promise.all([three, query, zero].map((store) => store!.close()));
  });

  it('The Redis store and bus fail to open if the server has no such database', async () => {
    for (const open of [openStore, openBus])
      await expect(open(`${url}/99999`, { timeout: 20 })).rejects.toMatchObject({
        code: 'store-failed',
        message: expect.stringContaining('DB index is out of range'),
      });
  });

  it('The Redis store never continues in another database, even if the server refuses it after a reconnect', async () => {
    const server = await startRedis();
    const admin = new Redis(server.url);
    const store = await redisStore(`${server.url}/3`);
    const bus = await openBus(`${server.url}/3`);
    const heard: unknown[] = [];
    await bus.subscribe('t', (message) => heard.push(message));
    await store.put('a', 1);
    await admin.call('acl', 'setuser', 'default', '-select');
    await admin.call('client', 'kill', 'skipme', 'yes');
    const denied = () => store.put('a', 2).catch((error) => error.code);
    await expect.poll(denied, { timeout: 20_000 }).toBe('store-denied');
    await expect(store.get('a')).rejects.toMatchObject({ code: 'store-denied' });
    expect(await admin.dbsize()).toBe(0);
    await admin.call('acl', 'setuser', 'default', '+select');
    await expect.poll(() => store.get('a').catch(() => {}), { timeout: 20_000 }).toMatchObject({ value: 1 });
    const says = () =>
      bus.publish('t', 'again').then(
        () => heard,
        () => heard,
      );
    await expect.poll(says, { timeout: 20_000 }).toContain('again');
    await Promise.all([store.close(), bus.close()]);
    admin.disconnect();
    await server.stop();
  });
});

describe('the Redis store with invalid arguments', () => {
  it('The Redis store refuses a URL whose database is not a number, without repeating it', async () => {
    for (const bad of ['/abc', '/1secret', '/0/', '/-1', '/1.5', '?db=secret', '/0?db=']) {
      for (const open of [openStore, openBus]) {
        const error = await open(`redis://127.0.0.1:1${bad}`, { timeout: 0.1 }).catch((error) => error);
        expect(error, bad).toMatchObject({ code: 'store-invalid' });
        expect(inspect(error)).not.toContain('secret');
      }
    }
  });

  it('The Redis store refuses an invalid URL without repeating it', async () => {
    for (const bad of ['redis://u:secret@host:99999', 'redis://u:%zzsecret@host', 'secret']) {
      const error = await redisStore(bad).catch((error: Error) => error);
      expect(error).toMatchObject({ code: 'store-invalid' });
      expect(inspect(error)).not.toContain('secret');
    }
  });

  it('The Redis store refuses an invalid timeout', async () => {
    await expect(redisStore('redis://127.0.0.1', { timeout: 'soon' })).rejects.toMatchObject({
      code: 'invalid-argument',
    });
  });

  it('The Redis store says what to install if ioredis is missing', async () => {
    const outcome = await withoutPackages('store/redis/index.ts', 'redisStore', 'redis://127.0.0.1:1');
    expect(outcome).toMatchObject({ code: 'missing-package' });
    expect(outcome.message).toContain('npm install ioredis');
  });

  it('The Redis store finds the client of a package that a bundler exports only as default', async () => {
    const source = `
      class Redis { constructor() { throw new Error('made'); } }
      Redis.Redis = Redis;
      export default Redis;`;
    const url = 'redis://127.0.0.1:1';
    const outcome = await withoutPackages('store/redis/index.ts', 'redisStore', url, {
      ioredis: source,
    });
    expect(outcome.message).toBe('made');
  });
});
