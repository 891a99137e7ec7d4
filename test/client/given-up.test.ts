import type { RequestListener } from 'node:http';
import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { LeaveOpen, openValise } from 'mcp-valise/client';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { endServers, listen } from '../server/http-stage.ts';

type Carrier = 'state' | 'dependent-shared';
const CARRIERS = ['state', 'dependent-shared'] as const;
const text = (value: unknown) => ({ content: [{ type: 'text' as const, text: String(value) }] });
const ASKED = {
  message: 'Who?',
  schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
} as const;

/** A server whose tool `held` waits, and a client that answers questions with `handler`. */
async function make(carrier: Carrier, handler: () => Promise<object>, store = memoryStore()) {
  const server = createValise({ name: 'test', sessions: {} });
  const mcp = server.install(new McpServer({ name: 'test', version: '1.0.0' }));
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  const ran: string[] = [];
  for (const name of ['held', 'pay'])
    mcp.registerTool(name, {}, async () => {
      ran.push(name);
      if (name === 'held') await held;
      return text(name);
    });
  mcp.registerTool(
    'greet',
    {},
    server.flow(async (flow) => {
      await flow.ask('name', ASKED as never);
      return text('hello');
    }),
  );
  const valise = await openValise({ store, carriers: [carrier] });
  const client = new Client(
    { name: 'me', version: '1.0.0' },
    { capabilities: { elicitation: { form: {} } } },
  );
  client.setRequestHandler('elicitation/create', handler as never);
  const [near, far] = InMemoryTransport.createLinkedPair();
  // What the server asks can be held up on its way.
  const send = far.send.bind(far);
  let pass = (deliver: () => Promise<void>): Promise<void> => deliver();
  far.send = (message, options) => {
    const deliver = () => send(message, options);
    return JSON.stringify(message).includes('Who?') ? pass(deliver) : deliver();
  };
  const question = () =>
    new Promise<() => Promise<void>>((resolve) => {
      pass = async (deliver) => resolve(deliver);
    });
  await mcp.connect(far);
  await valise.connect(client, near);
  const call = (name: string, options?: object) => client.callTool({ name, arguments: {} }, options);
  return { server, valise, client, call, ran, release, question };
}

const nobody = async () => ({ action: 'cancel' });

describe('a call that nobody waits for', () => {
  it.each(['timeout', 'abort'])(
    'A call that is canceled while it waits for its turn is not sent: %s',
    async (how) => {
      const { valise, client, call, ran, release } = await make('state', nobody);
      const session = await valise.sessions(client).create({ ordering: 'serial' });
      const first = session.run(() => call('held'));
      await expect.poll(() => ran).toEqual(['held']);
      const stop = new AbortController();
      const second = session.run(() =>
        call('pay', how === 'abort' ? { signal: stop.signal } : { timeout: 20 }),
      );
      if (how === 'abort') stop.abort();
      await expect(second).rejects.toThrow();
      release();
      await first;
      await session.run(() => call('held'));
      expect(ran).toEqual(['held', 'held']);
      await client.close();
      await valise.close();
    },
  );

  it.each(CARRIERS)('A call whose question crosses its cancellation asks nobody (%s)', async (carrier) => {
    let asked = 0;
    const { valise, client, call, question } = await make(carrier, async () => {
      asked++;
      return { action: 'decline' };
    });
    const stop = new AbortController();
    const arrived = question();
    const greeted = call('greet', { signal: stop.signal });
    const deliver = await arrived;
    stop.abort();
    await expect(greeted).rejects.toThrow();
    await deliver();
    // What is sent after it has come after it.
    await call('pay');
    expect(asked).toBe(0);
    expect(await valise.pending.list()).toEqual([]);
    await client.close();
    await valise.close();
  });
});

describe.each(CARRIERS)('a call that waits for an answer (%s)', (carrier) => {
  it('A call that is left open does not delay the others of its serial session', async () => {
    const { valise, client, call } = await make(carrier, async () => {
      throw new LeaveOpen();
    });
    const session = await valise.sessions(client).create({ ordering: 'serial' });
    await session.run(async () => {
      await expect(call('greet')).rejects.toThrow(/waits for an answer/);
      expect(await call('pay')).toMatchObject(text('pay'));
    });
    await client.close();
    await valise.close();
  });

  it('An answer fails if the connection closes while the question is answered', async () => {
    let isLeft = false;
    const asked = deferred();
    const { valise, client, call } = await make(carrier, async () => {
      if (!isLeft) throw new LeaveOpen();
      asked.resolve();
      return new Promise(() => {});
    });
    await expect(call('greet')).rejects.toThrow(/waits for an answer/);
    isLeft = true;
    const [round] = await valise.pending.list();
    const answered = valise.pending.answer(round?.id as string);
    await asked.promise;
    await client.close();
    await expect(answered).rejects.toThrow(/connection closed/);
    expect(await valise.pending.list()).toHaveLength(1);
    await valise.close();
  });
});

function deferred() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve: () => resolve() };
}

describe('a call whose session is gone', () => {
  afterEach(endServers);

  it.each(['forgotten', 'recreated'])(
    'A call whose session is gone ends even if the session cannot be %s',
    async (what) => {
      const server = createValise({ name: 'test', sessions: { mode: 'stored' } });
      const build = () => {
        const mcp = server.install(new McpServer({ name: 'test', version: '1.0.0' }));
        mcp.registerTool('pay', {}, async () => text('paid'));
        return mcp;
      };
      const url = await listen(toNodeHandler(createMcpHandler(build)) as RequestListener);
      const store = memoryStore();
      const remove = store.delete.bind(store);
      let isAway = false;
      store.delete = (...given) => (isAway ? Promise.reject(new Error('no store')) : remove(...given));
      const valise = await openValise({ store, allowLocal: true });
      const client = new Client({ name: 'me', version: '1.0.0' });
      client.onerror = () => {};
      const isForgotten = what === 'forgotten';
      let calls = 0;
      await valise.connect(client, url, {
        fetch: (...request) => {
          const isCall = String(request[1]?.body).includes('tools/call');
          return !isForgotten && isCall && ++calls > 1
            ? Promise.reject(new Error('no server'))
            : fetch(...request);
        },
      });
      const session = await valise
        .sessions(client)
        .create({ label: 'a', onGone: isForgotten ? 'throw' : 'recreate' });
      await server.sessions.revoke(session.id);
      isAway = isForgotten;
      const called = session.run(() => client.callTool({ name: 'pay', arguments: {} }));
      await expect(called).rejects.toThrow(isForgotten ? /no longer knows the session/ : /no server/);
      isAway = false;
      await client.close();
      await valise.close();
    },
  );
});
