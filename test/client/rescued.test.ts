import type { RequestListener } from 'node:http';
import { Client } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { LeaveOpen, openValise, type PendingRound } from 'mcp-valise/client';
import type { Carrier } from 'mcp-valise/internal';
import { generateKey } from 'mcp-valise/seal';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { endServers, listen } from '../server/http-stage.ts';
import { transportSessions } from './transport-sessions.ts';

const text = (value: unknown) => ({ content: [{ type: 'text' as const, text: String(value) }] });
const ASKED = {
  message: 'Who?',
  schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
} as const;

/** A server of the older era that can forget its transports' sessions, and a client before it. */
async function make({
  major = 'v2',
  carrier = 'state',
  asked,
  passing,
}: {
  major?: 'v1' | 'v2';
  carrier?: Carrier;
  asked?: (lose: () => void, replace: () => void) => void | Promise<void>;
  passing?: (method: string) => Promise<void> | undefined;
}) {
  const own = { name: 'test', keys: generateKey(), store: memoryStore() };
  let server = createValise({ ...own, sessions: { mode: 'stored' } });
  const ran: string[] = [];
  const build = () => {
    const mcp = server.install(new McpServer({ name: 'test', version: '1.0.0' }));
    for (const name of ['one', 'two', 'three'])
      mcp.registerTool(name, {}, async () => {
        ran.push(name);
        return text(name);
      });
    const greet = server.flow(async (flow) => {
      const { name } = await flow.ask('name', ASKED);
      ran.push(name);
      return text(`hello ${name}`);
    });
    mcp.registerTool('greet', {}, greet as never);
    const introduce = server.flow(async (flow) => {
      const { name } = await flow.ask('name', ASKED);
      const { name: other } = await flow.ask('other', ASKED);
      ran.push(`${name} and ${other}`);
      return text(`hello ${name} and ${other}`);
    });
    mcp.registerTool('introduce', {}, introduce as never);
    return mcp;
  };
  const { serve, lose } = transportSessions(build);
  let edge = server.http(serve) as RequestListener;
  const replace = () => {
    lose();
    server = createValise(own);
    edge = server.http(serve) as RequestListener;
  };
  const url = await listen((request, response) => edge(request, response));
  const valise = await openValise({ store: memoryStore(), allowLocal: true, carriers: [carrier] });
  const info = { name: 'me', version: '1.0.0' };
  const capabilities = { elicitation: { form: {} } };
  const answer = async () => {
    await asked?.(lose, replace);
    return { action: 'accept' as const, content: { name: 'Ada' } };
  };
  const older = new ClientV1(info, { capabilities });
  older.setRequestHandler(ElicitRequestSchema, answer);
  const newer = new Client(info, { capabilities, versionNegotiation: { mode: 'legacy' } });
  newer.setRequestHandler('elicitation/create', answer);
  const client = major === 'v1' ? (older as unknown as Client) : newer;
  client.onerror = () => {};
  /** The tools that were called, and the answers, on the wire. */
  const sent: string[] = [];
  await valise.connect(client, url, {
    fetch: async (to, init) => {
      const { method, params } = init?.method === 'POST' ? JSON.parse(String(init.body)) : {};
      if (method === 'tools/call') sent.push(params.name);
      else if (init?.method === 'POST' && method === undefined) sent.push('answer');
      await passing?.(method);
      return fetch(to, init);
    },
  });
  onTestFinished(async () => {
    await client.close();
    await valise.close();
  });
  const call = (name: string, options?: object) => client.callTool({ name, arguments: {} }, options);
  return { valise, client, call, ran, sent, lose };
}

/** Holds up the `initialize` of a client that has lost its transport's session. */
function holdRenewal() {
  let isHeld = (): void => {};
  let goOn = (): void => {};
  const held = new Promise<void>((resolve) => (isHeld = resolve));
  const goes = new Promise<void>((resolve) => (goOn = resolve));
  let isLost = false;
  return {
    held,
    goOn: () => goOn(),
    lost: () => {
      isLost = true;
    },
    passing: (method: string) => {
      if (!isLost || method !== 'initialize') return undefined;
      isHeld();
      return goes;
    },
  };
}

afterEach(endServers);

describe('a call that is sent again because its transport session was lost', () => {
  it.each(['dependent-shared', 'dependent-each'] as const)(
    'A call that is sent again with the answer of a round gets its result (%s)',
    async (carrier) => {
      const { valise, call, ran, sent } = await make({ carrier, asked: (lose) => lose() });
      expect(await call('greet', { timeout: 5000 })).toMatchObject(text('hello Ada'));
      expect([ran, sent]).toEqual([['Ada'], ['greet', 'greet', 'greet']]);
      expect(await valise.pending.list()).toEqual([]);
    },
  );

  it.each(['v1', 'v2'] as const)(
    'A call continues if only the answer to its question is sent again (%s)',
    async (major) => {
      const { valise, call, ran, sent } = await make({ major, asked: (lose) => lose() });
      expect(await call('greet')).toMatchObject(text('hello Ada'));
      expect([ran, sent]).toEqual([['Ada'], ['greet', 'answer', 'answer']]);
      expect(await valise.pending.list()).toEqual([]);
    },
  );

  it.each(['v1', 'v2'] as const)(
    'A call continues if the session is lost again before its next question is answered (%s)',
    async (major) => {
      const { valise, call, ran, sent } = await make({ major, asked: (lose) => lose() });
      expect(await call('introduce')).toMatchObject(text('hello Ada and Ada'));
      expect([ran, sent]).toEqual([['Ada and Ada'], ['introduce', 'answer', 'answer', 'answer', 'answer']]);
      expect(await valise.pending.list()).toEqual([]);
    },
  );

  it.each(['state', 'dependent-shared'] as const)(
    'A call continues if another call noticed the first loss and the new session is lost too (%s)',
    async (carrier) => {
      let between = async (): Promise<void> => {};
      const { valise, call, ran } = await make({
        carrier,
        asked: async (lose) => {
          lose();
          await between();
          lose();
        },
      });
      between = async () => void (await call('one'));
      expect(await call('greet')).toMatchObject(text('hello Ada'));
      expect(ran).toEqual(['one', 'Ada']);
      expect(await valise.pending.list()).toEqual([]);
    },
  );

  it('A call continues if its round is answered through pending.answer() later', async () => {
    const { valise, call, ran, sent, lose } = await make({
      asked: () => {
        throw new LeaveOpen();
      },
    });
    await expect(call('greet')).rejects.toThrow();
    const [round] = await valise.pending.list();
    lose();
    const { id, questions } = round as PendingRound;
    const answers = { [questions[0]?.key as string]: { action: 'accept', content: { name: 'Ada' } } };
    const answered = await valise.pending.answer(id, answers);
    expect(answered).toMatchObject({ done: true, result: text('hello Ada') });
    expect([ran, sent]).toEqual([['Ada'], ['greet', 'answer', 'answer']]);
  });

  it('A call does not continue in a session that the server no longer knows', async () => {
    const { valise, client, call, ran, sent } = await make({ asked: (_, replace) => replace() });
    const session = await valise.sessions(client).create();
    await expect(session.run(() => call('greet'))).rejects.toThrow('The server announces no sessions');
    expect([ran, sent]).toEqual([[], ['greet', 'answer']]);
    expect(await valise.pending.list()).toHaveLength(1);
  });

  it('A call does not continue if it is canceled before the answer is sent again', async () => {
    const { lost, held, goOn, passing } = holdRenewal();
    const { call, ran, sent } = await make({
      asked: (lose) => {
        lose();
        lost();
      },
      passing,
    });
    const stop = new AbortController();
    const greeted = call('greet', { signal: stop.signal });
    await held;
    stop.abort();
    await expect(greeted).rejects.toThrow();
    goOn();
    await call('one');
    expect([ran, sent]).toEqual([['one'], ['greet', 'answer', 'one']]);
  });

  it('A call that is sent again keeps its place in a serial session', async () => {
    const { valise, client, call, ran, sent, lose } = await make({});
    const session = await valise.sessions(client).create({ ordering: 'serial' });
    lose();
    await session.run(() => Promise.all(['one', 'two', 'three'].map((name) => call(name))));
    expect(sent).toEqual(['one', 'one', 'two', 'three']);
    expect(ran).toEqual(['one', 'two', 'three']);
  });

  it('A canceled call gives up its place in a serial session', async () => {
    const { lost, held, goOn, passing } = holdRenewal();
    const { valise, client, call, ran, lose } = await make({
      passing,
    });
    const session = await valise.sessions(client).create({ ordering: 'serial' });
    lose();
    lost();
    await session.run(async () => {
      const stop = new AbortController();
      const one = call('one', { signal: stop.signal });
      const two = call('two');
      await held;
      stop.abort();
      await expect(one).rejects.toThrow();
      goOn();
      expect(await two).toMatchObject(text('two'));
    });
    expect(ran).toEqual(['two']);
  });
});
