import { openStore, type Store } from 'mcp-valise/store';
import { upstashStore } from 'mcp-valise/store/upstash';
import { storeContract } from 'mcp-valise/testing';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { service, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { soak, tsx } from './places.ts';
import { startUpstash, type UpstashServer } from './upstash-server.ts';

const redis = (await service('redis')) as string;
const shared = redis ? await startUpstash(redis) : (undefined as unknown as UpstashServer);
afterAll(() => shared?.close());

/** A store on a server of its own. */
async function open(timeout = 10): Promise<{ store: Store; server: UpstashServer }> {
  const server = await startUpstash(redis);
  const store = upstashStore(server, { namespace: uniqueName(), timeout });
  onTestFinished(async () => {
    await store.close();
    await server.close();
  });
  return { store, server };
}

describe.skipIf(!redis)('the Upstash store', because('needs Redis'), () => {
  storeContract(
    () => {
      const namespace = uniqueName();
      const { url, token, loseReply } = shared;
      return {
        open: () => upstashStore({ url, token }, { namespace }),
        process: {
          module: new URL('../../src/store/upstash/store.ts', import.meta.url),
          export: 'upstashStore',
          args: [{ url, token }, { namespace }],
        },
        loseReply,
      };
    },
    { describe, it },
    { name: 'upstash', execArgv: tsx, losesReplies: true, scale: soak ? 1 : 0.1 },
  );

  it('The URL upstash://TOKEN@HOST opens the Upstash store', async () => {
    const prefix = uniqueName();
    for (const url of [shared.storeUrl, shared.storeUrl.replace('//', '//default:')]) {
      const store = await openStore(url, { prefix, timeout: '5s' });
      const version = await store.put('a', 1);
      expect(await store.get('a')).toEqual({ value: 1, version });
      await store.close();
    }
  });

  it('The Upstash store lists a page with one command, because it keeps one index', async () => {
    const { store, server } = await open();
    for (let count = 0; count < 10; count++) await store.put(`key/${count}`, count);
    server.heard.length = 0;
    expect((await store.list('key/')).keys).toHaveLength(10);
    expect(server.heard).toHaveLength(1);
  });

  it('The Upstash store sends the sync token of the last response, so that a replica knows what this store has written', async () => {
    const { store, server } = await open();
    await store.put('a', 1);
    await store.get('a');
    const { length } = server.heard;
    expect(server.heard.map(({ syncToken }) => syncToken)).toEqual([
      undefined,
      ...Array.from({ length: length - 1 }, (_, at) => String(at + 1)),
    ]);
  });

  it('The Upstash store says that the token is wrong, and does not repeat it', async () => {
    const store = upstashStore({ url: shared.url, token: 'a-wrong-token' });
    const failure = await store.get('a').catch((error: Error) => error);
    expect(failure).toMatchObject({ code: 'store-denied', outcome: 'not-done' });
    expect(String(failure)).toContain('Upstash at 127.0.0.1');
    expect(JSON.stringify([failure, String(failure)])).not.toContain('a-wrong-token');
    await store.close();
  });

  it.each([429, 500, 502, 503])('The Upstash store tries again after status %i', async (status) => {
    const { store, server } = await open();
    await store.put('a', 1);
    server.answerWith(status, status);
    const version = await store.put('a', 2);
    expect(await store.get('a')).toEqual({ value: 2, version });
  });

  it('The Upstash store fails at once with the message of the server if the command is refused', async () => {
    const { store, server } = await open();
    server.answerWith(404);
    await expect(store.get('a')).rejects.toMatchObject({
      code: 'store-failed',
      message: expect.stringContaining('HTTP status 404'),
    });
  });

  it('The Upstash store does not follow a redirect, which would send its token to another server', async () => {
    const { store, server } = await open();
    server.answerWith(307);
    await expect(store.get('a')).rejects.toMatchObject({ code: 'store-failed' });
  });

  it('The Upstash store fails with store-unavailable if nobody answers in time', async () => {
    const { store, server } = await open(0.3);
    await store.put('a', 1);
    const thaw = server.freeze();
    await expect(store.get('a')).rejects.toMatchObject({ code: 'store-unavailable' });
    thaw();
    expect((await store.get('a'))?.value).toBe(1);
  });

  it('The Upstash store reports no conflict if the reply was lost and another writer came after', async () => {
    const { store, server } = await open();
    for (const [key, condition] of [
      ['changed', { ifVersion: (await store.put('changed', 0)) as string }],
      ['created', { ifAbsent: true }],
    ] as const) {
      const lost = new Promise<() => void>((resolve) => {
        server.loseReply(() => resolve(server.freeze()));
      });
      const written = store.put(key, 1, condition).catch((error: { outcome?: string }) => error.outcome);
      const thaw = await lost;
      const other = store.put(key, 2);
      thaw();
      await other;
      expect(await written).toBe('unknown');
      expect((await store.get(key))?.value).toBe(2);
    }
  });

  it.each([
    ['no token', { url: 'https://example.upstash.io', token: '' }],
    ['a URL that is not encrypted', { url: 'http://example.upstash.io', token: 't' }],
    ['something else than a URL', { url: 'example', token: 't' }],
    ['a URL of something else', 'redis://t@example.upstash.io'],
    ['two hosts', 'upstash://t@a,b'],
    ['a URL without a token', 'upstash://example.upstash.io'],
  ])('The Upstash store refuses %s', (_, source) => {
    expect(() => upstashStore(source)).toThrow(expect.objectContaining({ code: 'store-invalid' }));
  });

  it("The Upstash store refuses durability: 'replicated', which HTTP cannot promise", async () => {
    await expect(openStore('upstash://t@localhost', { durability: 'replicated' })).rejects.toMatchObject({
      code: 'store-invalid',
    });
  });
});
