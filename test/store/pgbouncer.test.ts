import { openBus, openStore } from 'mcp-valise/store';
import { postgresStore } from 'mcp-valise/store/postgres';
import { storeContract } from 'mcp-valise/testing';
import pg from 'pg';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { noServices, type Service, service, startPgBouncer, uniqueName } from '../services.ts';
import { because } from '../skip.ts';

/** PgBouncer before the run's PostgreSQL, or why there is none. */
async function pooler(): Promise<{ bouncer?: Service; direct: string; reason: string }> {
  const direct = (await service('postgres')) ?? '';
  if (noServices) return { direct, reason: 'needs PostgreSQL and PgBouncer' };
  try {
    return { bouncer: await startPgBouncer({ postgres: direct }), direct, reason: '' };
  } catch (error) {
    return { direct, reason: (error as Error).message };
  }
}

const { bouncer, direct, reason } = await pooler();
afterAll(() => bouncer?.stop());
const url = bouncer?.url ?? '';

describe.skipIf(!bouncer)('PgBouncer in transaction mode', because(reason), () => {
  storeContract(
    () => {
      const table = uniqueName();
      return { open: () => postgresStore(url, { table }) };
    },
    { describe, it: it.concurrent as typeof it },
    { name: 'postgres behind PgBouncer', processes: false, scale: 0.05 },
  );

  it('PgBouncer swaps connections between clients, so that statements cannot stay prepared', async () => {
    const client = new pg.Client(url);
    await client.connect();
    onTestFinished(() => client.end());
    const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
    expect(rows[0].pid).not.toBe((client as unknown as { processID: number }).processID);
  });

  it('PgBouncer carries two hundred concurrent writes, by URL and on a pool of the caller', async () => {
    const pool = new pg.Pool({ connectionString: url, max: 20 });
    onTestFinished(() => pool.end());
    for (const source of [url, pool]) {
      const store = await postgresStore(source, { table: uniqueName() });
      onTestFinished(() => store.close());
      const keys = Array.from({ length: 200 }, (_, n) => `k${n}`);
      await Promise.all(keys.map((key, n) => store.put(key, n)));
      const values = await Promise.all(keys.map(async (key) => (await store.get(key))?.value));
      expect(values).toEqual(keys.map((_, n) => n));
    }
  });

  it('The error of a bus that cannot listen through PgBouncer names it', async () => {
    const bus = await openBus(url, { timeout: 5 });
    onTestFinished(() => bus.close());
    await expect(bus.subscribe('topic', () => {})).rejects.toMatchObject({
      code: 'store-unavailable',
      message: expect.stringContaining('pooler in transaction mode'),
    });
  });

  it('A bus behind PgBouncer can publish to one that is connected directly', async () => {
    const [speaker, hearer] = await Promise.all([openBus(url), openBus(direct)]);
    onTestFinished(async () => void (await Promise.all([speaker.close(), hearer.close()])));
    const heard: unknown[] = [];
    const topic = uniqueName();
    await hearer.subscribe(topic, (message) => heard.push(message));
    await speaker.publish(topic, { n: 1 });
    await expect.poll(() => heard).toEqual([{ n: 1 }]);
  });

  it('A store distinguishes PgBouncer from a direct server, on which statements stay prepared', async () => {
    for (const [place, prepared] of [
      [url, 0],
      [direct, 1],
    ] as const) {
      const pool = new pg.Pool({ connectionString: place, max: 1 });
      onTestFinished(() => pool.end());
      const store = await postgresStore(pool, { table: uniqueName() });
      onTestFinished(() => store.close());
      await store.put('a', 1);
      const { rows } = await pool.query(
        "SELECT count(*)::int AS n FROM pg_prepared_statements WHERE name LIKE 'valise_put_%'",
      );
      expect(rows[0].n).toBe(prepared);
    }
  });

  it('A store behind PgBouncer accepts ?prepare=false in the URL', async () => {
    const store = await openStore(`${url}?prepare=false`);
    onTestFinished(() => store.close());
    expect(await store.get(uniqueName())).toBeUndefined();
  });
});
