import fc from 'fast-check';
import { Redis } from 'ioredis';
import { postgresBus } from 'mcp-valise/store/postgres';
import { redisBus } from 'mcp-valise/store/redis';
import { busContract } from 'mcp-valise/testing';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Assembly, split } from '../../src/store/postgres/bus.ts';
import type { Bus } from '../../src/store/types.ts';
import { service, uniqueName } from '../services.ts';
import { because } from '../skip.ts';

const redis = (await service('redis')) as string;
const postgres = (await service('postgres')) as string;

const opened = async (opening: Promise<Bus>): Promise<Bus> => {
  const bus = await opening;
  onTestFinished(() => bus.close());
  return bus;
};

describe.skipIf(!redis)('the Redis bus', because('needs Redis'), () => {
  busContract(() => redisBus(redis), { describe, it }, { name: 'redis' });

  it('The Redis bus subscribes once per topic, and only while somebody listens', async () => {
    const client = new Redis(redis);
    onTestFinished(() => client.disconnect());
    const namespace = uniqueName();
    const bus = await opened(redisBus(redis, { namespace }));
    const channels = () => client.pubsub('CHANNELS', `${namespace}*`);
    const ends = await Promise.all([1, 2, 3].map(() => bus.subscribe('t', () => {})));
    expect(await channels()).toEqual([`${namespace}:bus:t`]);
    for (const end of ends) await end();
    await expect.poll(channels).toEqual([]);
    const heard: unknown[] = [];
    await bus.subscribe('t', (message) => heard.push(message));
    await bus.publish('t', 'again');
    await expect.poll(() => heard).toEqual(['again']);
  });

  it('Redis buses keep namespaces apart and ignore messages of others', async () => {
    const client = new Redis(redis);
    onTestFinished(() => client.disconnect());
    const [mine, theirs] = [uniqueName(), uniqueName()];
    const bus = await opened(redisBus(redis, { namespace: mine }));
    const other = await opened(redisBus(redis, { namespace: theirs }));
    const heard: unknown[] = [];
    await bus.subscribe('t', (message) => heard.push(message));
    await other.publish('t', 'elsewhere');
    await client.publish(`${mine}:bus:t`, '{no json');
    await bus.publish('t', 'here');
    await expect.poll(() => heard).toEqual(['here']);
  });
});

describe.skipIf(!postgres)('the PostgreSQL bus', because('needs PostgreSQL'), () => {
  busContract(() => postgresBus(postgres), { describe, it }, { name: 'postgres' });

  it('PostgreSQL buses keep namespaces apart and ignore messages of others', async () => {
    const pool = new pg.Pool({ connectionString: postgres });
    const [mine, theirs] = [uniqueName(), uniqueName()];
    const bus = await opened(postgresBus(pool, { namespace: mine }));
    const other = await opened(postgresBus(postgres, { namespace: theirs }));
    const heard: unknown[] = [];
    await bus.subscribe('t', (message) => heard.push(message));
    await other.publish('t', 'elsewhere');
    const { rows } = await pool.query<{ channel: string }>(
      `SELECT substring(query FROM 'LISTEN (valise_\\w+)') AS channel FROM pg_stat_activity WHERE query LIKE 'LISTEN valise_%'`,
    );
    for (const { channel } of rows) {
      for (const payload of ['', '={no json', '+', '+AAAAAAAAAAAA 0 99999 x', '+AAAAAAAAAAAA 1 2 x']) {
        await pool.query('SELECT pg_notify($1, $2)', [channel, payload]);
      }
    }
    expect(rows.length).toBeGreaterThan(0);
    await bus.publish('t', 'here');
    await expect.poll(() => heard).toEqual(['here']);
    await bus.close();
    expect((await pool.query('SELECT 1 AS one')).rows, 'the pool is still the caller’s').toEqual([
      { one: 1 },
    ]);
    await pool.end();
  });

  it('The PostgreSQL bus sends one statement at a time on its listening connection, however listeners come and go', async () => {
    const pool = new pg.Pool({ connectionString: postgres });
    onTestFinished(() => pool.end());
    let [open, most] = [0, 0];
    pool.on('connect', (client) => {
      const query = client.query.bind(client) as (statement: unknown) => Promise<unknown>;
      Object.assign(client, {
        query: (statement: unknown) => {
          most = Math.max(most, ++open);
          return query(statement).finally(() => open--);
        },
      });
    });
    const bus = await opened(postgresBus(pool, { namespace: uniqueName() }));
    const ends = await Promise.all([1, 2, 3, 4].map((n) => bus.subscribe(`t${n}`, () => {})));
    const heard: unknown[] = [];
    const late = bus.subscribe('late', (message) => heard.push(message));
    await Promise.all([...ends.map((end) => end()), late]);
    expect(most).toBe(1);
    await bus.publish('late', 'here');
    await expect.poll(() => heard).toEqual(['here']);
  });

  it('The PostgreSQL bus carries messages of every size around the limit of a notification, in order', async () => {
    const bus = await opened(postgresBus(postgres, { namespace: uniqueName() }));
    const heard: unknown[] = [];
    await bus.subscribe('t', (message) => heard.push(message));
    const sizes = [
      7_890, 7_896, 7_897, 7_898, 7_899, 7_900, 7_990, 7_999, 8_000, 8_001, 50_000, 1_000_000, 1,
    ];
    const messages = sizes.flatMap((size) => ['x'.repeat(size), '🧳'.repeat(size / 4), 'é'.repeat(size / 2)]);
    for (const message of messages) await bus.publish('t', message);
    await expect.poll(() => heard.length, { timeout: 20_000 }).toBe(messages.length);
    expect(heard).toEqual(messages);
  });
});

describe('messages in parts', () => {
  const assembled = (parts: readonly string[]): string[] => {
    const heard: string[] = [];
    const assembly = new Assembly((_, text) => heard.push(text));
    for (const part of parts) assembly.add('c', part);
    return heard;
  };

  it('Parts of a message are each below the limit, and together give the message', () => {
    const piece = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 50 }),
      fc.constantFrom('x'.repeat(7_000), '🧳'.repeat(3_000), 'é'.repeat(4_000)),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const text = pieces.join('');
        const parts = split(text);
        for (const part of parts) expect(Buffer.byteLength(part)).toBeLessThan(8_000);
        // As UTF-8 brings them: a character cut in two would not survive.
        expect(assembled(parts.map((part) => Buffer.from(part).toString()))).toEqual([text]);
      }),
    );
  });

  it('A message with too many parts is refused', () => {
    expect(() => split('x'.repeat(80_000_000))).toThrow(expect.objectContaining({ code: 'store-invalid' }));
  });

  it('A message with a missing part is dropped, and the next message is not', () => {
    const parts = split('y'.repeat(30_000));
    expect(parts.length).toBe(4);
    for (let lost = 0; lost < parts.length; lost++) {
      const left = parts.filter((_, at) => at !== lost);
      expect(assembled([...left, ...split('next'), ...split('z'.repeat(9_000))])).toEqual([
        'next',
        'z'.repeat(9_000),
      ]);
    }
  });
});
