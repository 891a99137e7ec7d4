import { readFile } from 'node:fs/promises';
import { postgresBus, postgresStore } from 'mcp-valise/store/postgres';
import { redisBus, redisStore } from 'mcp-valise/store/redis';
import { storeContract } from 'mcp-valise/testing';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Bus, Store } from '../../src/store/types.ts';
import { noServices, type Service, startPostgres, startRedis, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { layWire } from './proxy.ts';

interface Driver {
  readonly name: string;
  /** Ends the server at once, with no good-bye. PostgreSQL's own word for it leaves no orphans that block a new start. */
  readonly kill: NodeJS.Signals;
  start(): Promise<Service>;
  open(url: string, options: { namespace: string; timeout?: number }): Promise<Store>;
  openBus(url: string, options: { timeout?: number }): Promise<Bus>;
}

const drivers: Driver[] = [
  { name: 'redis', kill: 'SIGKILL', start: () => startRedis(), open: redisStore, openBus: redisBus },
  {
    name: 'postgres',
    kill: 'SIGQUIT',
    start: () => startPostgres(),
    open: (url, { namespace: table, ...rest }) => postgresStore(url, { table, ...rest }),
    openBus: postgresBus,
  },
];

const unavailable = expect.objectContaining({ code: 'store-unavailable' });

describe.skipIf(noServices).each(drivers)(
  '$name without its server',
  because('needs servers'),
  ({ name, kill, start, open, openBus }) => {
    // Its own server: nobody else's tests should meet a restart.
    let server: Service;
    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server?.stop());

    const openHere = async (options: { timeout?: number } = {}): Promise<Store> => {
      const store = await open(server.url, { namespace: uniqueName(), ...options });
      onTestFinished(() => store.close());
      return store;
    };
    const openBusHere = async (options: { timeout?: number } = {}): Promise<Bus> => {
      const bus = await openBus(server.url, options);
      onTestFinished(() => bus.close());
      return bus;
    };

    storeContract(
      () => {
        const namespace = uniqueName();
        return { open: () => open(server.url, { namespace }), restart: () => server.restart() };
      },
      // Of the whole contract only what restarts the server: the rest is asked on the shared one.
      {
        describe: (_, body) => body(),
        it: (title, body, timeout) => title.includes('restarts') && it(title, body, timeout),
      },
      { name, restarts: true, processes: false },
    );

    it('Calls wait until the server is back', async () => {
      const store = await openHere();
      const version = await store.put('a', 1);
      await server.halt();
      const calls = [store.put('b', 2), store.get('a'), store.list(''), store.lease('l', 60)] as const;
      await server.start();
      const [put, got, , lease] = await Promise.all(calls);
      expect(put).toEqual(expect.any(String));
      expect(got).toEqual({ value: 1, version });
      expect(lease?.fence).toBeGreaterThan(0);
    });

    it('Calls fail after their timeout, name the address of the server, and work again later', async () => {
      const store = await openHere({ timeout: 0.3 });
      const lease = (await store.lease('l', 60))!;
      await store.put('a', 1);
      await server.halt();
      await expect(store.get('a')).rejects.toEqual(unavailable);
      await expect(store.get('a')).rejects.toThrow(`at 127.0.0.1:${server.port}`);
      await expect(store.put('a', 2)).rejects.toEqual(unavailable);
      await expect(store.delete('a')).rejects.toEqual(unavailable);
      await expect(store.list('')).rejects.toEqual(unavailable);
      await expect(store.lease('m', 1)).rejects.toEqual(unavailable);
      await expect(lease.renew(1)).rejects.toEqual(unavailable);
      await lease.release();
      await server.start();
      await works(store);
      expect((await store.get('a'))?.value).toBe(1);
    });

    it('Calls in progress fail or take effect when the server is killed, and work again later', async () => {
      const store = await openHere();
      const codes = new Set<string>();
      const writers = Array.from({ length: 16 }, async (_, writer) => {
        const fail = (error: { code: string }) => codes.add(error.code);
        while (!codes.has('stop') && !codes.has('closed')) {
          await store.put(`w${writer}`, { text: 'x'.repeat(10_000) }).catch(fail);
          await store.get(`w${writer}`).catch(fail);
        }
      });
      await store.put('a', 1);
      process.kill(server.pid, kill);
      await server.halt();
      await server.start();
      await works(store);
      codes.add('stop');
      await Promise.all(writers);
      expect(['stop', 'store-unavailable']).toEqual(expect.arrayContaining([...codes]));
    });

    it('A store never reports its own write as a conflict, and counts correctly through restarts', async () => {
      const store = await openHere();
      let version = (await store.put('count', 0)) as string;
      let value = 0;
      let doubts = 0;
      let restarting = true;
      const restarts = (async () => {
        for (let round = 0; round < 3; round++) await server.restart();
        restarting = false;
      })();
      let confirmed = 0;
      while (restarting) {
        try {
          const next = await store.put('count', value + 1, { ifVersion: version });
          expect(next, 'nobody else writes').toEqual(expect.any(String));
          version = next as string;
          value++;
          confirmed++;
        } catch (error) {
          expect(error).toEqual(unavailable);
          doubts++;
          await works(store);
          const entry = (await store.get('count'))!;
          version = entry.version;
          value = entry.value as number;
        }
      }
      await restarts;
      expect(value).toBeGreaterThanOrEqual(confirmed);
      expect(value).toBeLessThanOrEqual(confirmed + doubts);
    });

    it('A store does not wait forever for a server that hangs', async () => {
      const store = await openHere({ timeout: 0.3 });
      await store.put('a', 1);
      const frozen = [server.pid, ...(await childrenOf(server.pid))];
      for (const pid of frozen) process.kill(pid, 'SIGSTOP');
      try {
        const calls = [store.get('a'), store.put('a', 2), store.lease('l', 5), store.list('')];
        for (const outcome of await Promise.allSettled(calls)) {
          expect(outcome).toEqual({ status: 'rejected', reason: unavailable });
        }
        await expect(store.get('a')).rejects.toEqual(unavailable);
      } finally {
        for (const pid of frozen) process.kill(pid, 'SIGCONT');
      }
      await works(store);
    });

    it('A store gives up a connection that died silently and works on a new one', async () => {
      const wire = await layWire(server.url);
      onTestFinished(() => wire.close());
      const store = await open(wire.url, { namespace: uniqueName(), timeout: 0.3 });
      onTestFinished(() => store.close());
      await Promise.all(Array.from({ length: 20 }, (_, n) => store.put(`k${n}`, n)));
      wire.cut();
      await expect(store.put('k0', 1)).rejects.toEqual(unavailable);
      await works(store);
    });

    it('A bus notices that its listening connection died silently and listens on a new one', async () => {
      const wire = await layWire(server.url);
      onTestFinished(() => wire.close());
      const [far, near] = [await openBus(wire.url, { timeout: 0.3 }), await openBusHere()];
      onTestFinished(() => far.close());
      const heard: unknown[] = [];
      await far.subscribe('t', (message) => heard.push(message));
      wire.cut();
      await near.publish('t', 'lost');
      await until(async () => {
        await near.publish('t', 'found');
        return heard.includes('found');
      });
      expect(heard).not.toContain('lost');
    });

    it('Opening fails within the timeout if there is no server, and names the address', async () => {
      await server.halt();
      try {
        const opening = open(server.url, { namespace: uniqueName(), timeout: 0.3 });
        await expect(opening).rejects.toEqual(unavailable);
        await expect(openBus(server.url, { timeout: 0.3 })).rejects.toThrow(`at 127.0.0.1:${server.port}`);
      } finally {
        await server.start();
      }
    });

    it('Opening succeeds if the server starts in time', async () => {
      await server.halt();
      const opening = open(server.url, { namespace: uniqueName() });
      await server.start();
      const store = await opening;
      await works(store);
      await store.close();
    });

    it('A store closes while the server is down', async () => {
      const store = await open(server.url, { namespace: uniqueName(), timeout: 0.3 });
      const bus = await openBus(server.url, { timeout: 0.3 });
      await bus.subscribe('t', () => {});
      await server.halt();
      const call = store.get('a').catch((error) => error.code);
      await Promise.all([store.close(), bus.close()]);
      expect(await call).toBe('store-unavailable');
      await server.start();
    });

    it('A bus gets messages again after a restart, on every topic, once each', async () => {
      const [one, two] = [await openBusHere(), await openBusHere()];
      const heard: string[] = [];
      for (const topic of ['x', 'y'])
        await two.subscribe(topic, (message) => heard.push(`${topic}${message}`));
      const end = await two.subscribe('z', (message) => heard.push(`z${message}`));
      for (let round = 0; round < 3; round++) {
        await server.restart();
        // Nobody hears what is said in the gap, so it is said until it is heard.
        await until(async () => {
          await Promise.all(
            [one.publish('x', round), one.publish('y', round)].map((sent) => sent.catch(() => {})),
          );
          return heard.includes(`x${round}`) && heard.includes(`y${round}`);
        });
        if (round === 0) await end();
      }
      await one.publish('z', 'ended');
      await one.publish('x', 'last');
      await until(async () => heard.includes('xlast'));
      await one.publish('x', 'end');
      await until(async () => heard.includes('xend'));
      expect(heard.filter((message) => message === 'xlast')).toHaveLength(1);
      expect(heard).not.toContain('zended');
    });

    it('Subscribing and publishing wait for a server that is down, or fail in time', async () => {
      const [patient, hasty] = [await openBusHere(), await openBusHere({ timeout: 0.3 })];
      const heard: unknown[] = [];
      await server.halt();
      await expect(hasty.publish('t', 1)).rejects.toEqual(unavailable);
      await expect(hasty.subscribe('t', () => {})).rejects.toEqual(unavailable);
      const subscribing = patient.subscribe('t', (message) => heard.push(message));
      await server.start();
      await subscribing;
      await until(async () => {
        await hasty.publish('t', 2).catch(() => {});
        return heard.length > 0;
      });
      const end = await hasty.subscribe('t', (message) => heard.push(message));
      await end();
    });
  },
);

/** A call may still fail while connections come back. */
async function works(store: Store): Promise<void> {
  await until(() =>
    store.put('works', 1).then(
      () => true,
      (error) => {
        expect(error).toEqual(unavailable);
        return false;
      },
    ),
  );
  expect((await store.get('works'))?.value).toBe(1);
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  await expect.poll(holds, { timeout: 20_000, interval: 20 }).toBe(true);
}

async function childrenOf(pid: number): Promise<number[]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return children.split(' ').filter(Boolean).map(Number);
}
