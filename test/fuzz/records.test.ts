import { Client } from '@modelcontextprotocol/client';
import { type ClientValise, openValise, ValiseError } from 'mcp-valise/client';
import { memoryStore, type Store } from 'mcp-valise/store';
import { describe, expect, it, vi } from 'vitest';
import { MAJORS } from '../server/majors.ts';
import { ERAS, type Loot, plunder, request, SLIP } from './messages.ts';
import { type Json, mutateJson } from './mutate.ts';
import { ask, openPipe } from './pipe.ts';
import { fuzz } from './run.ts';
import { fuzzedServer } from './server.ts';

type Entries = readonly (readonly [string, Json])[];

async function entriesOf(store: Store): Promise<Entries> {
  const { keys } = await store.list('', { limit: 1000 });
  return Promise.all(keys.map(async (key) => [key, (await store.get(key))?.value as Json] as const));
}

/** A store with the same entries, but for one that is damaged. */
async function storeOf(entries: Entries, damaged: string, value: Json): Promise<Store> {
  const store = memoryStore();
  for (const [key, whole] of entries) await store.put(key, key === damaged ? value : whole);
  return store;
}

describe('a server whose records are damaged', () => {
  it('A server continues to serve, and answers with a result or a deliberate error', {
    timeout: 600_000,
  }, async () => {
    const store = memoryStore();
    const first = fuzzedServer('stored', store);
    const pipe = await openPipe(first, 'modern', MAJORS[1]);
    const loot = await plunder('modern', (message) => ask(pipe, message));
    expect(loot.session).toBeDefined();
    const entries = await entriesOf(store);
    expect(entries.length).toBeGreaterThan(1);
    await fuzz({ name: 'records of a server', short: 100, soak: 800 }, async ({ random, input, count }) => {
      const [key, whole] = random.pick(entries);
      const value = mutateJson(random, whole);
      input({ key, value });
      const server = fuzzedServer('stored', await storeOf(entries, key, value));
      const slips: string[] = [];
      server.valise.on('warning', ({ what }) => void (SLIP.test(what) && slips.push(what)));
      const other = await openPipe(server, 'modern', MAJORS[1]);
      for (const message of requests(loot)) {
        const answer = await ask(other, message);
        const { error } = answer as { error?: { code: number; message: string } };
        count(error ? `${error.code} ${error.message}` : 'result');
      }
      await other.close();
      expect(slips).toEqual([]);
      await server.valise.close();
    });
    await pipe.close();
    await first.valise.close();
  });
});

function requests(loot: Loot) {
  const { others, listen } = ERAS.modern;
  const again = { name: 'ask', arguments: { a: 1, b: ['x', null] }, ...loot.round?.params };
  return [
    request(loot, 10, 'tools/call', { name: 'gated', arguments: {} }, true),
    request(loot, 11, 'tools/call', again),
    ...others.map((method, at) => request(loot, 12 + at, method, {}, true)),
    request(loot, 20, listen, { _meta: { 'dev.valise/listen': { poll: true, wait: 0 } } }, true),
    request(loot, 21, 'tools/call', { name: 'work', arguments: {} }),
  ].filter(({ method }) => method !== listen);
}

const URL_OF = 'https://shop.example.com/mcp';

/** A server of the older era, with state, sessions, and a session of its own. */
const shop = async (_url: string | URL, init: RequestInit = {}): Promise<Response> => {
  if (init.method !== 'POST') return new Response(null, { status: 405 });
  const { id, method, params } = JSON.parse(String(init.body)) as {
    id?: Json;
    method: string;
    params?: { name?: string };
  };
  if (id === undefined) return new Response(null, { status: 202 });
  const session = { sessionId: 'sess-1', state: 'opaque' };
  const _meta = {
    'modelcontextprotocol.io/state/server': { theme: 'dark' },
    'modelcontextprotocol.io/state/session': { cart: [1] },
    'io.modelcontextprotocol/session': session,
  };
  const results: Record<string, object> = {
    initialize: {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {}, sessions: {} },
      serverInfo: { name: 'shop', version: '1' },
    },
    'sessions/create': { session },
    'tools/call': { content: [], _meta },
    'sessions/delete': {},
  };
  const asking = {
    jsonrpc: '2.0',
    id,
    dependent_requests: {
      state: 's',
      requests: [
        {
          method: 'elicitation/create',
          params: { message: 'Who?', requestedSchema: { type: 'object', properties: {} } },
        },
      ],
    },
  };
  const headers = { 'mcp-session-id': 'transport-1' };
  if (params?.name === 'ask') return Response.json(asking, { headers });
  const result = results[method];
  return Response.json(
    result
      ? { jsonrpc: '2.0', id, result }
      : { jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } },
    { headers },
  );
};

/** All that a client does with what it keeps. */
async function visit(valise: ClientValise, count: (outcome: string) => void): Promise<void> {
  const client = new Client({ name: 'host', version: '1.0.0' }, { capabilities: { elicitation: {} } });
  client.onerror = () => {};
  // Nobody is there to answer: the question stays open, and is kept.
  client.setRequestHandler('elicitation/create', () => Promise.reject(new Error('nobody is there')));
  const deeds: (() => unknown)[] = [
    () => valise.connect(client, URL_OF, { fetch: shop }),
    () => client.callTool({ name: 'work', arguments: {} }),
    () => valise.sessions(client).named('diary'),
    async () =>
      (await valise.sessions(client).named('diary')).run(() =>
        client.callTool({ name: 'work', arguments: {} }),
      ),
    () => client.callTool({ name: 'ask', arguments: {} }),
    () => valise.jar.list({ values: true }),
    () => valise.pending.list(),
    () => valise.connections.list(),
    () => valise.sessions.kept(),
    () => client.close(),
  ];
  for (const deed of deeds) {
    try {
      await deed();
      count('done');
    } catch (error) {
      if (error instanceof ValiseError) count(error.code);
      else if (/^(Type|Range|Reference|Syntax)Error$/.test((error as Error).constructor.name)) throw error;
      else count((error as Error).constructor.name);
    }
  }
}

describe('a client whose records are damaged', () => {
  it('A client connects and calls anyway, or fails with a typed error that says why', {
    timeout: 600_000,
  }, async () => {
    vi.spyOn(console, 'warn').mockImplementation(() => {});
    const store = memoryStore();
    const whole = await openValise({ store });
    await visit(whole, () => {});
    await whole.close();
    const entries = await entriesOf(store);
    expect(entries.length).toBeGreaterThan(1);
    await fuzz({ name: 'records of a client', short: 100, soak: 800 }, async ({ random, input, count }) => {
      const [key, value] = random.pick(entries);
      const damaged = mutateJson(random, value);
      input({ key, damaged });
      const valise = await openValise({ store: await storeOf(entries, key, damaged) });
      await visit(valise, count);
      // A record of a later release is left as it is, so what the server set since is not stored.
      await valise.close().catch((error: unknown) => {
        if (!(error instanceof ValiseError)) throw error;
        count(error.code);
      });
    });
  });
});
