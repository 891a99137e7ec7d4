import { InMemoryTransport, type JSONRPCMessage } from '@modelcontextprotocol/client';
import { McpServer } from '@modelcontextprotocol/server';
import { type ClientValise, LeaveOpen, openValise, type PendingRound } from 'mcp-valise/client';
import { generateKey, parseKeys } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { example as workItems } from '../../examples/work-items.ts';
import { callText } from '../e2e/hosts.ts';
import { type Ask, askable, asTheSeed, RESOLVE, RESOLVED, stage } from '../e2e/rounds-stage.ts';
import { rawServer, result } from './rounds-server.ts';

const HOSTS = [
  { client: 'v1', era: 'legacy' },
  { client: 'v2', era: 'legacy' },
  { client: 'v2', era: 'modern' },
] as const;

const leave: Ask = () => {
  throw new LeaveOpen();
};
const accept = (content: object) => ({ action: 'accept', content });

const before: string[] = [];
/** Keys of a server that has replaced those before it: theirs are gone for good. */
const freshKeys = () => {
  const keys = parseKeys(generateKey());
  const options = { keys, retiredKeys: [...before] };
  before.push(...keys.kids);
  return options;
};

describe.each(HOSTS)('a pending round of a $client client, $era', ({ client, era }) => {
  const open = async (
    store = memoryStore(),
    ask: Ask = leave,
    resume = false,
    carriers?: readonly ('state' | 'dependent-shared' | 'dependent-each')[],
  ) => {
    const server = await stage({ sdk: 'v2', instances: 1, options: freshKeys() });
    const valise = await openValise({ store, carriers });
    const host = askable(client, era, ask);
    await valise.connect(host, server.urls[0] as URL, { resume });
    return { server, valise, host, store };
  };
  const first = async (list: Promise<readonly PendingRound[]>): Promise<PendingRound> => {
    const rounds = await list;
    expect(rounds).toHaveLength(1);
    return rounds[0] as PendingRound;
  };

  it('A round is stored if nobody can answer, and the caller gets an error', async () => {
    const { server, valise, host } = await open();
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow(
      /left open|waits for an answer/,
    );
    const round = await first(valise.pending.list());
    expect(round).toEqual({
      id: expect.any(String),
      server: server.urls[0]?.href,
      call: { method: 'tools/call', params: { name: 'update_work_item', arguments: RESOLVE } },
      era,
      questions: [
        {
          key: expect.any(String),
          method: 'elicitation/create',
          params: expect.objectContaining({
            message: 'Resolving Bug #4522 requires a resolution. How was this bug resolved?',
          }),
        },
      ],
      since: expect.any(Date),
      expiresAt: expect.any(Date),
    });
    expect(JSON.stringify(round)).not.toContain('v1.');
    await host.close();
    await server.close();
  });

  it('A round has an expiry, and an expired round is neither listed nor answered', async () => {
    const { server, valise, host, store } = await open();
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    const { id, expiresAt, since } = await first(valise.pending.list());
    // The default of flows is ten minutes.
    expect(expiresAt!.getTime() - since.getTime()).toBeGreaterThan(590_000);
    expect(expiresAt!.getTime() - since.getTime()).toBeLessThanOrEqual(600_000);
    onTestFinished(() => void vi.useRealTimers());
    vi.useFakeTimers({ toFake: ['Date'], now: expiresAt!.getTime() - 1 });
    expect(await valise.pending.list()).toHaveLength(1);
    vi.setSystemTime(expiresAt!.getTime());
    await expect(valise.pending.answer(id, accept({ resolution: 'Fixed' }))).rejects.toMatchObject({
      code: 'not-found',
    });
    expect(await valise.pending.list()).toEqual([]);
    expect((await store.list('rounds/pending/')).keys).toEqual([]);
    await host.close();
    await server.close();
  });

  it('A round is deleted once the server rejects its answer as too late', async () => {
    const { server, valise, host } = await open(memoryStore(), leave, false, ['state']);
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    const { id } = await first(valise.pending.list());
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 900_000 });
    onTestFinished(() => void vi.useRealTimers());
    const answered = valise.pending.answer(id, accept({ resolution: 'Fixed' }));
    await expect(answered).rejects.toThrow(/Invalid or expired requestState/);
    vi.useRealTimers();
    expect(await valise.pending.list()).toEqual([]);
    await host.close();
    await server.close();
  });

  it.each(['state', 'dependent-shared', 'dependent-each'] as const)(
    'A round is deleted once the server rejects the late answer of a handler (carrier %s)',
    async (carrier) => {
      const late: Ask = () => {
        vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 900_000 });
        return accept({ resolution: 'Fixed' });
      };
      onTestFinished(() => void vi.useRealTimers());
      const { server, valise, host } = await open(memoryStore(), late, false, [carrier]);
      const failed = await callText(host, 'update_work_item', RESOLVE).catch((error: unknown) => error);
      vi.useRealTimers();
      expect(String(failed)).toMatch(/expired/);
      expect((failed as { data?: { pending?: unknown } }).data?.pending).toBeUndefined();
      expect(await valise.pending.list()).toEqual([]);
      await host.close();
      await server.close();
    },
  );

  it('Only one caller at a time answers a round, and others get an error', async () => {
    const { server, valise, host } = await open();
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    const { id } = await first(valise.pending.list());
    const answers = [1, 2].map(() => valise.pending.answer(id, accept({ resolution: 'Fixed' })));
    const [failed] = (await Promise.allSettled(answers)).flatMap((each) =>
      each.status === 'rejected' ? [each.reason] : [],
    );
    expect(failed).toMatchObject({
      code: 'already-done',
      message: `The pending round "${id}" is being answered already. Wait for it, then list the pending questions.`,
    });
    await host.close();
    await server.close();
  });

  it('The error of a call names its round, even if there are several', async () => {
    const { server, valise, host } = await open();
    const named: unknown[] = [];
    for (const workItemId of [1, 2]) {
      const failed = callText(host, 'update_work_item', { ...RESOLVE, workItemId });
      named.push(await failed.catch((error: { data?: { pending?: unknown } }) => error.data?.pending));
    }
    const rounds = await valise.pending.list();
    expect(named).toEqual(rounds.map(({ id }) => id));
    await expect(valise.pending.answer(rounds[0]!.id)).rejects.toThrow(rounds[0]!.id);
    await host.close();
    await server.close();
  });

  it.each(['out of order', 'the user timed out'])(
    'A handler that fails leaves no round behind: %s',
    async (why) => {
      const { server, valise, host } = await open(memoryStore(), () => {
        throw new Error(why);
      });
      // Before 2026-07-28 the server hears of it, and answers the call.
      const failed = callText(host, 'update_work_item', RESOLVE).catch((error: Error) => error.message);
      expect(await failed).toContain(why);
      await vi.waitFor(async () => expect(await valise.pending.list()).toEqual([]));
      await host.close();
      await server.close();
    },
  );

  it('A round stays pending if a handler that answers it later fails', async () => {
    const { server, host, store } = await open();
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    await host.close();
    const valise = await openValise({ store });
    const next = askable(client, era, () => {
      throw new Error('out of order');
    });
    await valise.connect(next, server.urls[0] as URL, { resume: false });
    const { id } = await first(valise.pending.list());
    await expect(valise.pending.answer(id)).rejects.toThrow('out of order');
    expect(await valise.pending.answer(id, accept({ resolution: 'Fixed' }))).toMatchObject({ done: true });
    await next.close();
    await server.close();
  });

  it('A round stays pending, and the error names it, if its answer cannot be delivered', async () => {
    const { server, valise, host } = await open(memoryStore(), async () => {
      await server.stop(0);
      return accept({ resolution: 'Fixed' });
    });
    const error = await callText(host, 'update_work_item', RESOLVE).catch((failed: unknown) => failed);
    const { id } = await first(valise.pending.list());
    expect(error).toMatchObject({
      message: expect.stringContaining('could not be delivered'),
      data: { pending: id },
    });
    await host.close();
    await server.close();
  });

  if (era === 'modern')
    it('An answer is not sent to a server that would treat it as a new call', async () => {
      const { server, valise, host } = await open();
      await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
      await host.close();
      const older = askable('v2', 'legacy', leave);
      await valise.connect(older, server.urls[0] as URL, { resume: false });
      const { id } = await first(valise.pending.list());
      for (const answers of [accept({ resolution: 'Fixed' }), undefined]) {
        const answered = valise.pending.answer(id, answers, { client: older });
        await expect(answered).rejects.toMatchObject({ code: 'other-version' });
      }
      expect(await valise.pending.list()).toHaveLength(1);
      await older.close();
      await server.close();
    });

  it('The next process continues a call round after round until it completes', async () => {
    const { server, host, store } = await open();
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    await host.close();

    const valise = await openValise({ store });
    const round = await first(valise.pending.list());
    const answers = { [round.questions[0]!.key]: accept({ resolution: 'Duplicate' }) };
    await expect(valise.pending.answer(round.id, answers)).rejects.toMatchObject({ code: 'not-connected' });

    const next = askable(client, era, leave);
    await valise.connect(next, server.urls[0] as URL, { resume: false });
    const second = await valise.pending.answer(round.id, answers);
    expect(second).toMatchObject({
      done: false,
      round: {
        id: round.id,
        questions: [{ params: { message: expect.stringContaining('which work item') } }],
      },
    });
    expect((await first(valise.pending.list())).questions).toEqual(!second.done && second.round.questions);
    const last = await valise.pending.answer(round.id, accept({ duplicateOfId: 4301 }));
    expect(last).toMatchObject({ done: true, result: { content: [{ text: RESOLVED }] } });
    expect(await valise.pending.list()).toEqual([]);
    await next.close();
    await server.close();
  });

  it.each([
    { on: 'a new connection', resume: false },
    { on: 'a resumed connection', resume: true },
  ])('pending.answer() calls the handlers of the client on $on', async ({ resume }) => {
    const { server, host, store } = await open(memoryStore(), leave, resume);
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    await host.close();
    const valise = await openValise({ store });
    const next = askable(client, era, asTheSeed);
    await valise.connect(next, server.urls[0] as URL, { resume });
    const { id } = await first(valise.pending.list());
    expect(await valise.pending.answer(id)).toMatchObject({
      done: true,
      result: { content: [{ text: RESOLVED }] },
    });
    expect(await valise.pending.list()).toEqual([]);
    await next.close();
    await server.close();
  });

  it('pending.drop() deletes a round', async () => {
    const { server, valise, host } = await open();
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    const { id } = await first(valise.pending.list());
    expect(await valise.pending.drop(id)).toBe(true);
    expect(await valise.pending.drop(id)).toBe(false);
    expect(await valise.pending.list()).toEqual([]);
    await expect(valise.pending.answer(id, {})).rejects.toMatchObject({ code: 'not-found' });
    await host.close();
    await server.close();
  });

  it('pending.answer() requires all answers of a round', async () => {
    const { server, valise, host } = await open();
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    const { id } = await first(valise.pending.list());
    await expect(valise.pending.answer(id, {})).rejects.toMatchObject({ code: 'invalid-argument' });
    await host.close();
    await server.close();
  });

  it('A round belongs to its principal', async () => {
    const { server, host, store } = await open();
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    const other = await openValise({ store, principal: 'bob' });
    expect(await other.pending.list()).toEqual([]);
    await host.close();
    await server.close();
  });

  it('A round ends once the handler has answered', async () => {
    const { server, valise, host } = await open(memoryStore(), asTheSeed);
    expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
    await vi.waitFor(async () => expect(await valise.pending.list()).toEqual([]));
    await host.close();
    await server.close();
  });

  it('A round ends if the server says that it has expired', async () => {
    const { server, host, store } = await open();
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    await host.close();
    // The keys of the server are gone with its process.
    await server.close();
    const again = await stage({ sdk: 'v2', instances: 1, options: freshKeys() });
    const valise = await openValise({ store });
    const { id } = await first(valise.pending.list());
    for (const key of (await store.list('rounds/pending/')).keys) {
      const { value } = (await store.get(key)) as unknown as { value: { server: string } };
      await store.put(key, { ...value, server: again.urls[0]!.href });
    }
    const next = askable(client, era, leave);
    await valise.connect(next, again.urls[0] as URL, { resume: false });
    await expect(valise.pending.answer(id, accept({ resolution: 'Fixed' }))).rejects.toThrow(
      /Invalid or expired requestState|400/,
    );
    await next.close();
    await again.close();
  });
});

describe.each(['v1', 'v2'] as const)('a round whose answer is sent alone, of a %s client', (client) => {
  afterEach(() => vi.useRealTimers());
  const answer = accept({ resolution: 'Fixed' });

  const connect = async (
    valise: ClientValise,
    far: (transport: InMemoryTransport) => unknown,
    ask: Ask = leave,
  ) => {
    const host = askable(client, 'legacy', ask);
    const [near, end] = InMemoryTransport.createLinkedPair();
    await far(end);
    await valise.connect(host, near as never);
    return host;
  };

  const serve = async (far: InMemoryTransport) => {
    const kit = { sdk: 'v2', McpServer, options: freshKeys(), flags: {} } as const;
    const { server } = await workItems.build(kit as never);
    await ((await server()) as McpServer).connect(far);
  };

  const leftOpen = async (valise: ClientValise) => {
    const host = await connect(valise, serve);
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    return host;
  };

  /** A server that asks once so many calls have come, and goes on with nothing. */
  const silent =
    (heard: (message: JSONRPCMessage) => void, calls = 1) =>
    async (far: InMemoryTransport) => {
      let called = 0;
      far.onmessage = (message) => {
        const { id, method } = message as { id: number | string; method?: string };
        if (id === 'q') heard(message);
        const serverInfo = { name: 'silent', version: '1' };
        const capabilities = { tools: {} };
        if (method === 'initialize') {
          const result = { protocolVersion: '2025-11-25', serverInfo, capabilities };
          void far.send({ jsonrpc: '2.0', id, result });
        }
        if (method !== 'tools/call' || ++called < calls) return;
        const params = { message: 'How?', requestedSchema: { type: 'object', properties: {} } };
        void far.send({ jsonrpc: '2.0', id: 'q', state: 's', method: 'elicitation/create', params } as never);
      };
      await far.start();
    };

  it('A round that could belong to several calls is not stored, and the server learns that nobody answers', async () => {
    const valise = await openValise({ store: memoryStore() });
    const heard = vi.fn();
    const host = await connect(valise, silent(heard, 2));
    const calls = [1, 2].map(() => callText(host, 'any', {}).catch(() => {}));
    await vi.waitFor(() => expect(heard).toHaveBeenCalled());
    expect(heard).toHaveBeenCalledWith(expect.objectContaining({ error: expect.anything() }));
    expect(await valise.pending.list()).toEqual([]);
    await host.close();
    await Promise.all(calls);
  });

  it('A round is not answered twice while its handler is running, and its call continues', async () => {
    const valise = await openValise({ store: memoryStore(), carriers: ['state'] });
    let say = (_: object): void => {};
    const asked = vi.fn(() => new Promise<object>((resolve) => (say = resolve)));
    const host = await connect(valise, serve, asked);
    const called = callText(host, 'update_work_item', RESOLVE);
    await vi.waitFor(() => expect(asked).toHaveBeenCalledOnce());
    const [{ id }] = (await valise.pending.list()) as [PendingRound];
    for (const given of [answer, undefined])
      await expect(valise.pending.answer(id, given)).rejects.toMatchObject({ code: 'already-done' });
    expect(asked).toHaveBeenCalledOnce();
    say(answer);
    expect(await called).toContain('resolved as Fixed');
    expect(await valise.pending.list()).toEqual([]);
    await host.close();
  });

  it('One caller answers a round, however long that takes', async () => {
    const valise = await openValise({ store: memoryStore(), carriers: ['state'] });
    await (await leftOpen(valise)).close();
    let say = (_: object): void => {};
    const asked = vi.fn(() => new Promise<object>((resolve) => (say = resolve)));
    const host = await connect(valise, serve, asked);
    const [{ id }] = (await valise.pending.list()) as [PendingRound];
    vi.useFakeTimers({ toFake: ['Date', 'setInterval', 'clearInterval'] });
    const answered = valise.pending.answer(id).catch((error: unknown) => error);
    await vi.waitFor(() => expect(asked).toHaveBeenCalledOnce());
    await vi.advanceTimersByTimeAsync(3_600_000);
    await expect(valise.pending.answer(id, answer)).rejects.toMatchObject({ code: 'already-done' });
    say(answer);
    await answered;
    await host.close();
  });

  it('A rejected answer leaves the round pending if another process has moved the call to its next round', async () => {
    const store = memoryStore();
    const valise = await openValise({ store, carriers: ['state'] });
    await (await leftOpen(valise)).close();
    const host = await connect(valise, serve, async () => {
      const [key] = (await store.list('rounds/pending/')).keys as [string];
      await store.put(key, (await store.get(key))!.value);
      return answer;
    });
    const [{ id }] = (await valise.pending.list()) as [PendingRound];
    await expect(valise.pending.answer(id)).rejects.toMatchObject({ rpcCode: -32602 });
    expect(await valise.pending.list()).toHaveLength(1);
    await host.close();
  });

  it('[R-10] A round ends if the server cannot open its context', async () => {
    const valise = await openValise({ store: memoryStore(), carriers: ['state'] });
    await (await leftOpen(valise)).close();
    // The keys of the server are gone with its process.
    const next = await connect(valise, serve);
    const [{ id }] = (await valise.pending.list()) as [PendingRound];
    await expect(valise.pending.answer(id, answer)).rejects.toMatchObject({
      rpcCode: -32602,
      data: { reason: 'invalid_request_state' },
    });
    expect(await valise.pending.list()).toEqual([]);
    await next.close();
  });

  it.each([
    ['the connection closes', 'request-failed', (host: { close(): Promise<void> }) => host.close()],
    ['the server says nothing for long', 'timeout', () => vi.advanceTimersByTimeAsync(300_000)],
  ] as const)('A round stays pending if %s', async (_, code, end) => {
    const valise = await openValise({ store: memoryStore() });
    const heard = vi.fn();
    const host = await connect(valise, silent(heard));
    await expect(callText(host, 'any', {})).rejects.toThrow();
    const [{ id }] = (await valise.pending.list()) as [PendingRound];
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const ended = expect(valise.pending.answer(id, answer)).rejects.toMatchObject({ code });
    await vi.waitFor(() => expect(heard).toHaveBeenCalled());
    await end(host);
    await ended;
    expect(await valise.pending.list()).toHaveLength(1);
    await host.close();
  });
});

describe.each([
  { client: 'v1', form: 'state' },
  { client: 'v1', form: 'dependent' },
  { client: 'v2', form: 'state' },
  { client: 'v2', form: 'dependent' },
] as const)('a $form round whose answer the server accepts, of a $client client', ({ client, form }) => {
  const params = '"params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}';
  const progress =
    '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"on it"}}';

  it.each([
    ['says something', [progress]],
    ['says nothing', []],
  ])(
    'A round stays pending, and the error names it, if the server %s and then crashes',
    async (_, lastWords) => {
      let called: unknown;
      let answered = 0;
      const server = await rawServer(({ message }) => {
        const isAnswer = message.dependent_responses !== undefined || message.id === 'q';
        if (isAnswer)
          return ++answered === 1 ? lastWords : [result(form === 'state' ? called : message.id, 'done')];
        called = message.id;
        const id = JSON.stringify(message.id);
        const asked = `{"method":"elicitation/create",${params}}`;
        return form === 'state'
          ? [`{"jsonrpc":"2.0","id":"q","state":"s","method":"elicitation/create",${params}}`]
          : [`{"jsonrpc":"2.0","id":${id},"dependent_requests":{"state":"s","requests":[${asked}]}}`];
      });
      const valise = await openValise({ store: memoryStore() });
      const host = askable(client, 'legacy', () => accept({}));
      await valise.connect(host, server.url);
      const error = await callText(host, 'any', {}).catch((error: unknown) => error);
      const [round] = await valise.pending.list();
      expect(error).toMatchObject({ code: -32000, data: { pending: round?.id } });
      const next = await valise.pending.answer(round?.id as string, accept({}));
      expect(next).toMatchObject({ done: true, result: { content: [{ text: 'done' }] } });
      expect([await valise.pending.list(), answered]).toEqual([[], 2]);
      await host.close();
      await server.close();
    },
  );
});

describe.each([
  { client: 'v1', form: 'state' },
  { client: 'v1', form: 'dependent' },
  { client: 'v2', form: 'state' },
  { client: 'v2', form: 'dependent' },
] as const)('a $client client that stops waiting (a $form round)', ({ client, form }) => {
  const params = '"params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}';
  const round = (id: unknown): string =>
    form === 'dependent'
      ? `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"dependent_requests":{"state":"s","requests":[{${params}}]}}`
      : `{"jsonrpc":"2.0","id":"q","state":"s","method":"elicitation/create",${params}}`;

  const open = async () => {
    let called: unknown;
    const server = await rawServer(({ message }) => {
      if (message.method === 'ping') return JSON.stringify({ jsonrpc: '2.0', id: message.id, result: {} });
      if (message.dependent_responses) return result(message.id, 'late');
      if (message.id === 'q') return result(called, 'late');
      called = message.id;
      return [round(message.id)];
    });
    const valise = await openValise({ store: memoryStore() });
    let answer: (answer: object) => void = () => {};
    const asked = vi.fn(() => new Promise<object>((resolve) => (answer = resolve)));
    const host = askable(client, 'legacy', asked);
    await valise.connect(host, server.url, { resume: false });
    const call = (options: object): Promise<unknown> => {
      const request = { name: 'any', arguments: {} };
      const v1 = host.callTool.bind(host) as unknown as (...args: unknown[]) => Promise<unknown>;
      return client === 'v1' ? v1(request, undefined, options) : host.callTool(request, options);
    };
    return { server, valise, asked, host, call, answer: () => answer(accept({})) };
  };

  it('Canceling a call withdraws and deletes its question', async () => {
    const { server, valise, asked, host, call, answer } = await open();
    const stop = new AbortController();
    const called = call({ signal: stop.signal }).catch((error: unknown) => error);
    await vi.waitFor(() => expect(asked).toHaveBeenCalled());
    expect(await valise.pending.list()).toHaveLength(1);
    stop.abort('enough');
    await called;
    await vi.waitFor(async () => expect(await valise.pending.list()).toEqual([]));
    // An answer that comes after all goes nowhere: the server must not go on with a call that nobody wants.
    answer();
    await host.ping();
    expect(server.heard().filter(({ message }) => message.result || message.dependent_responses)).toEqual([]);
    await host.close();
    await server.close();
  });

  it('A timeout of the call keeps its question', async () => {
    const { server, valise, host, call } = await open();
    await expect(call({ timeout: 200 })).rejects.toThrow(/timed out/i);
    const [left] = await valise.pending.list();
    expect(await valise.pending.answer(left!.id, accept({}))).toMatchObject({
      done: true,
      result: { content: [{ text: 'late' }] },
    });
    await host.close();
    await server.close();
  });
});

describe('a caller that answers rounds on 2026-07-28 itself', () => {
  const asking = { method: 'elicitation/create', params: { message: 'Name?' } };
  const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };

  /** Speaks to a server that asks twice, and looks at nothing that Valise adds. */
  const open = async (context: object) => {
    const [near, far] = InMemoryTransport.createLinkedPair();
    far.onmessage = (message) => {
      const { id, params } = message as { id: number; params: { inputResponses?: { a?: object } } };
      const next = params.inputResponses ? { b: asking } : { a: asking };
      const result = params.inputResponses?.a || !params.inputResponses ? next : undefined;
      const round = { resultType: 'input_required', inputRequests: result, ...context };
      void far.send({ jsonrpc: '2.0', id, result: result ? round : { resultType: 'complete', content: [] } });
    };
    const valise = await openValise({ store: memoryStore() });
    const waiting = new Map<unknown, (message: JSONRPCMessage) => void>();
    const client = {
      async connect(transport: InMemoryTransport) {
        transport.onmessage = (message) => waiting.get((message as { id: number }).id)?.(message);
        await transport.start();
      },
      getServerCapabilities: () => ({}),
    };
    await valise.connect(client, near as never);
    let last = 0;
    const call = (given: object = {}, name = 'any') => {
      const id = ++last;
      return new Promise<JSONRPCMessage>((resolve, reject) => {
        waiting.set(id, resolve);
        const params = { name, ...given, _meta };
        near.send({ jsonrpc: '2.0', id, method: 'tools/call', params }).catch(reject);
      });
    };
    return { valise, call };
  };

  it.each([
    { with: 'a context', context: { requestState: 's' } },
    { with: 'no context', context: {} },
  ])('A caller that answers rounds itself leaves nothing pending, with $with', async ({ context }) => {
    const { valise, call } = await open(context);
    await call();
    const [first] = await valise.pending.list();
    await call({ ...context, inputResponses: { a: accept({}) } });
    const [second, ...others] = await valise.pending.list();
    expect(second).toMatchObject({ id: first?.id, questions: [{ key: 'b' }] });
    expect(others).toEqual([]);
    await call({ ...context, inputResponses: { b: accept({}) } });
    expect(await valise.pending.list()).toEqual([]);
  });

  it('A caller that answers rounds itself can make the same call twice at the same time, next to others', async () => {
    const { valise, call } = await open({});
    await Promise.all([call(), call(), call({}, 'other')]);
    expect(await valise.pending.list()).toHaveLength(3);
    for (const key of ['a', 'b', 'a', 'b']) await call({ inputResponses: { [key]: accept({}) } });
    expect(await valise.pending.list()).toMatchObject([{ call: { params: { name: 'other' } } }]);
  });
});
