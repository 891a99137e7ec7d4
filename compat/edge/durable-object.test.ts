import { randomUUID } from 'node:crypto';
import { type DurableObjectBinding, durableObjectStore } from 'mcp-valise/store/durable-object';
import { storeContract } from 'mcp-valise/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Runtime } from './runtime.ts';

let runtime: Runtime;
beforeAll(async () => {
  runtime = await Runtime.start();
});
afterAll(() => runtime.stop());

/** The binding of the runtime that runs now, from outside of it. `loseReply` drops the next reply, after the call was run. */
function bindingOf(): DurableObjectBinding & { loseReply(): void } {
  let isLosing = false;
  return {
    loseReply() {
      isLosing = true;
    },
    idFromName: (name) => name,
    get: (name) => ({
      async fetch(url, init) {
        const namespace = await runtime.miniflare.getDurableObjectNamespace('STORE');
        const response = await namespace.get(namespace.idFromName(name as string)).fetch(url, init);
        if (!isLosing) return response;
        isLosing = false;
        await response.json();
        throw new Error('Network connection lost.');
      },
    }),
  };
}

/** Runs SQL in the object with this name. */
async function sql(name: string, query: string): Promise<unknown> {
  const namespace = await runtime.miniflare.getDurableObjectNamespace('STORE');
  const object = namespace.get(namespace.idFromName(name));
  return (await object.fetch('https://object.invalid/', { method: 'PUT', body: query })).json();
}

describe.each([1, 3])('with shards: %i', (shards) => {
  storeContract(
    () => {
      const name = randomUUID();
      const binding = bindingOf();
      return {
        open: () => durableObjectStore(binding, { name, shards, timeout: 60 }),
        loseReply: binding.loseReply,
        restart: () => runtime.restart(),
      };
    },
    { describe, it },
    {
      name: `a store in ${shards === 1 ? 'a Durable Object' : `${shards} Durable Objects`}`,
      processes: false,
      losesReplies: true,
      restarts: shards === 1,
      scale: 0.05,
    },
  );
});

describe('durableObjectStore', () => {
  it('does not call it a conflict if the reply was lost and another writer came after', async () => {
    const binding = bindingOf();
    let other = async () => {};
    const interrupted: DurableObjectBinding = {
      idFromName: binding.idFromName,
      get: (id) => ({
        async fetch(url, init) {
          const response = await binding.get(id).fetch(url, init);
          await other();
          return response;
        },
      }),
    };
    const name = randomUUID();
    const store = durableObjectStore(binding, { name });
    const version = (await store.put('key', 0)) as string;
    other = async () => {
      other = async () => {};
      await store.put('key', 2);
      throw new Error('Network connection lost.');
    };
    const written = durableObjectStore(interrupted, { name }).put('key', 1, { ifVersion: version });
    await expect(written).rejects.toMatchObject({ outcome: 'unknown' });
    expect((await store.get('key'))?.value).toBe(2);
  });

  it('does not repeat a call to an object that is overloaded', async () => {
    let calls = 0;
    const overloaded: DurableObjectBinding = {
      idFromName: (name) => name,
      get: () => ({
        async fetch() {
          calls++;
          throw Object.assign(new Error('Durable Object is overloaded.'), { overloaded: true });
        },
      }),
    };
    await expect(durableObjectStore(overloaded).put('key', 1)).rejects.toMatchObject({
      code: 'store-unavailable',
      outcome: 'not-done',
    });
    expect(calls).toBe(1);
  });

  it('removes expired entries and leases while it writes others', async () => {
    const name = randomUUID();
    const store = durableObjectStore(bindingOf(), { name });
    for (let count = 0; count < 20; count++) {
      await store.put(`short/${count}`, count, { ttl: 0.05 });
      await store.lease(`short/${count}`, 0.05);
    }
    await expect.poll(() => store.get('short/19')).toBeUndefined();
    const rows = () =>
      sql(name, 'SELECT (SELECT count(*) FROM entry) AS entries, (SELECT count(*) FROM lease) AS leases');
    expect(await rows()).toEqual([{ entries: 20, leases: 20 }]);
    for (let count = 0; count < 130; count++) await store.put('long', count, { ttl: 600 });
    expect(await rows()).toEqual([{ entries: 1, leases: 0 }]);
  });

  it('leaves the tables of a later version alone', async () => {
    const name = randomUUID();
    const store = durableObjectStore(bindingOf(), { name });
    await store.put('key', 1);
    await sql(name, "UPDATE meta SET value = 99 WHERE name = 'layout'");
    await runtime.restart();
    await expect(store.put('key', 2)).rejects.toMatchObject({ code: 'store-newer', outcome: 'not-done' });
    expect(await sql(name, 'SELECT text FROM entry')).toEqual([{ text: '1' }]);
  });

  it('says that a value is too large for SQLite, and that nothing was written', async () => {
    const store = durableObjectStore(bindingOf(), { name: randomUUID() });
    await expect(store.put('key', 'x'.repeat(3_000_000))).rejects.toMatchObject({
      code: 'store-failed',
      outcome: 'not-done',
    });
    expect(await store.get('key')).toBeUndefined();
  });

  it.each([
    ['nothing', undefined],
    ['a KV namespace', { get: () => null, put: () => null }],
  ])('refuses %s instead of a binding of Durable Objects', (_, binding) => {
    expect(() => durableObjectStore(binding as unknown as DurableObjectBinding)).toThrow(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
  });
});
