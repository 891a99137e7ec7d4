import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@modelcontextprotocol/client';
import { type ClientValise, openValise, type Store } from 'mcp-valise/client';
import { openStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { count, LEGACY_CLIENTS, openSessionful, type Sessionful } from './sessionful.ts';

let folder: string;
let url: string;
let server: Sessionful;
let store: Store;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'valise-first-'));
  url = `sqlite:${join(folder, 'state.db')}`;
  server = await openSessionful();
  store = await openStore(url);
});
afterEach(async () => {
  await store.close();
  await server.close();
  rmSync(folder, { recursive: true });
});

const terminate = ({ transport }: Client) =>
  (transport as unknown as { terminateSession(): Promise<void> }).terminateSession();

/** A store whose leases are over as soon as they are given. */
const impatient = (over: Store): Store => ({
  get: (key) => over.get(key),
  put: (key, value, options) => over.put(key, value, options),
  delete: (key, options) => over.delete(key, options),
  list: (prefix, options) => over.list(prefix, options),
  lease: async () => ({ fence: 1, renew: async () => false, release: async () => {} }),
  close: async () => {},
});

describe.each(LEGACY_CLIENTS)('$kind clients with one store', ({ make }) => {
  /** A process of the host, with its own connection to the store. */
  async function start(options = {}, store: string | Store = url) {
    const valise = await openValise({ store, allowLocal: true });
    const client = make();
    const warnings: string[] = [];
    valise.on('warning', ({ what }) => warnings.push(what));
    await valise.connect(client, server.url, options);
    return { valise, client, warnings };
  }

  async function end({ valise, client }: { valise: ClientValise; client: Client }): Promise<void> {
    await client.close();
    await valise.close();
  }

  const bags = async () => (await store.list('jar/')).keys;

  it('Clients that connect for the first time together start one session and store its state once', async () => {
    const all = await Promise.all(Array.from({ length: 5 }, () => start()));
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(1);
    for (const [at, { client }] of all.entries()) {
      server.state = { [`item ${at}`]: at };
      await count(client);
    }
    await Promise.all(all.map(end));
    expect(await bags()).toHaveLength(1);
    const later = await start();
    expect(await count(later.client)).toBe(6);
    expect(
      later.valise.jar
        .list({ scope: 'session' })
        .map(({ key }) => key)
        .sort(),
    ).toEqual(all.map((_, at) => `item ${at}`));
    await end(later);
  });

  it('Clients that connect together start one session even if the first of them fails', async () => {
    let first = true;
    server.intercept = ({ method }) => {
      if (method !== 'initialize' || !first) return undefined;
      first = false;
      return { status: 503, body: 'full' };
    };
    const tried = await Promise.allSettled([start(), start(), start()]);
    expect(tried.filter(({ status }) => status === 'rejected')).toHaveLength(1);
    expect(server.sessions()).toHaveLength(1);
    for (const one of tried) if (one.status === 'fulfilled') await end(one.value);
  });

  it('A client warns that its session came too late, and stores no state that nobody could find', async () => {
    // As where another process took longer than anybody waits for it.
    server.intercept = async ({ method }) => {
      if (method !== 'initialize') return undefined;
      server.intercept = () => undefined;
      const other = await start({}, impatient(store));
      server.state = { cart: 'theirs' };
      await count(other.client);
      await end(other);
      return undefined;
    };
    const late = await start({}, impatient(store));
    const deleted: string[] = [];
    late.valise.jar.on('deleted', ({ key, by }) => deleted.push(`${key} ${by}`));
    server.state = { cart: 'late' };
    await count(late.client);
    await end(late);
    expect(late.warnings).toContainEqual(expect.stringMatching(/another process/i));
    expect(deleted).toEqual(['cart session-end']);
    expect(await bags()).toHaveLength(1);
    const next = await start();
    expect(next.valise.jar.list({ values: true })).toMatchObject([{ key: 'cart', value: 'theirs' }]);
    await end(next);
  });

  it('Clients store no state of a session that is not stored itself', async () => {
    const one = await start({ resume: false });
    server.state = { cart: 'tea' };
    await count(one.client);
    await end(one);
    expect(await bags()).toEqual([]);
  });

  it('The state of a session ends when the host ends the session', async () => {
    const one = await start();
    server.state = { cart: 'tea' };
    await count(one.client);
    await end(one);
    expect(await bags()).toHaveLength(1);
    const two = await start();
    await terminate(two.client);
    expect(server.sessions()).toEqual([]);
    await end(two);
    expect(await bags()).toEqual([]);
  });

  it('The state of a session ends if the client does not resume the session', async () => {
    const one = await start();
    server.state = { cart: 'tea' };
    await count(one.client);
    await end(one);
    const key = (await store.list('connection/')).keys.find((name) => name.endsWith('/legacy')) ?? '';
    const kept = (await store.get(key))?.value as { introduction: object };
    await store.put(key, {
      ...kept,
      introduction: { ...kept.introduction, protocolVersion: '1999-01-01' } as never,
    });
    const two = await start();
    await count(two.client);
    await end(two);
    expect(await bags()).toEqual([]);
  });
});
