import { randomUUID } from 'node:crypto';
import { createValise } from 'mcp-valise/server';
import { workersKvStore } from 'mcp-valise/store/workers-kv';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Runtime } from './runtime.ts';

let runtime: Runtime;
beforeAll(async () => {
  runtime = await Runtime.start();
});
afterAll(() => runtime.stop());

const open = async () =>
  workersKvStore(await runtime.miniflare.getKVNamespace('KV'), { namespace: randomUUID() });

describe('workersKvStore', () => {
  it.each<[string, unknown]>([
    ['null', null],
    ['a number', -1.5e-7],
    ['odd text', 'a\u0000b 🧳 e\u0301 \ud800'],
    ['an object', { '': [1, { a: {} }], __proto__x: true }],
    ['a value of 1 MB', 'x'.repeat(1_000_000)],
  ])('returns %s as it was written', async (_, value) => {
    const store = await open();
    const version = await store.put('key', value as never);
    expect(await store.get('key')).toEqual({ value, version });
    await store.delete('key');
    expect(await store.get('key')).toBeUndefined();
  });

  it.each(['.', '..', 'a/b', ' ', 'ünï🧳', 'k'.repeat(400)])('takes the key %j', async (key) => {
    const store = await open();
    await store.put(key, 1);
    expect((await store.get(key))?.value).toBe(1);
  });

  it('ends an entry when its time is over, though KV itself keeps it for a minute', async () => {
    const store = await open();
    const before = Date.now();
    await store.put('short', 1, { ttl: 0.5 });
    expect((await store.get('short'))?.expiresAt).toBeGreaterThan(before);
    await expect.poll(() => store.get('short')).toBeUndefined();
    await store.put('long', 1, { ttl: 3600 });
    expect((await store.get('long'))?.value).toBe(1);
  });

  it.each([
    ['ifVersion', { ifVersion: 'a' }],
    ['ifAbsent', { ifAbsent: true }],
  ])('refuses a write with %s, because KV has no compare-and-set', async (_, condition) => {
    const store = await open();
    await expect(store.put('key', 1, condition as object)).rejects.toMatchObject({
      code: 'invalid-argument',
      outcome: 'not-done',
      message: expect.stringContaining('no compare-and-set'),
    });
    expect(await store.get('key')).toBeUndefined();
  });

  it('refuses keys that KV does not take, and what is no key, no value and no lifetime', async () => {
    const store = await open();
    const refusal = { code: 'store-invalid' };
    for (const key of ['', 'a\u0000b', 'k'.repeat(512)])
      await expect(store.get(key)).rejects.toMatchObject(refusal);
    await expect(store.put('key', undefined as never)).rejects.toMatchObject(refusal);
    await expect(store.put('key', 1, { ttl: 0 })).rejects.toMatchObject(refusal);
  });

  it('cannot be the store of a server, which hears it when it starts', async () => {
    const store = await open();
    expect(() => createValise({ name: 'notes', keys: 'ephemeral', store: store as never })).toThrow(
      expect.objectContaining({
        code: 'invalid-argument',
        message: expect.stringContaining('compare and set'),
      }),
    );
  });
});
