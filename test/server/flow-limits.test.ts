import { text as readText } from 'node:stream/consumers';
import { getHeapSnapshot } from 'node:v8';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { createValise, type ServerEvents, type ServerValiseOptions } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { accept, call, echo, flowPeer, modernCall, name, ours, text, type Wire } from './flow-peer.ts';
import { HEADERS, call as httpCall, initialize } from './http-stage.ts';
import { MAJORS } from './majors.ts';

const MIB = 1024 * 1024;

afterEach(() => vi.useRealTimers());

/** A server in this process, behind `valise.http`, that clients without Valise talk to in bare HTTP messages. */
function stage(options: Partial<ServerValiseOptions> = {}) {
  const rejected: ServerEvents['rejected'][] = [];
  const valise = createValise({
    name: 'test',
    principal: (_authInfo, extra) => {
      const subject = (extra as { request?: Request } | undefined)?.request?.headers.get('x-user');
      return subject ? { subject } : undefined;
    },
    ...options,
    events: { rejected: (event) => rejected.push(event) },
  });
  const { fetch: serve } = valise.http(
    createMcpHandler(() => {
      const server = valise.install(new MAJORS[1].McpServer({ name: 'test', version: '1.0.0' }));
      server.registerTool(
        'ask',
        { inputSchema: z.looseObject({}) },
        valise.flow(async ({ size }, flow) => {
          await flow.ask('a', name);
          return text('x'.repeat(Number(size ?? 0)));
        }),
      );
      return server;
    }),
  );
  const send = (method: string, headers: Record<string, string>, body?: object): Promise<Response> =>
    Promise.resolve(
      serve(
        new Request('http://127.0.0.1/mcp', {
          method,
          headers: { ...HEADERS, 'mcp-protocol-version': '2025-11-25', ...headers },
          ...(body && { body: JSON.stringify(body) }),
        }),
      ),
    );
  const open = async (headers: Record<string, string> = {}): Promise<Record<string, string>> => {
    const { headers: given } = await send('POST', headers, initialize({ elicitation: {} }));
    return { ...headers, 'mcp-session-id': given.get('mcp-session-id') as string };
  };
  let ids = 0;
  /** Makes a call that asks; what stands in the first event of its stream. */
  const ask = async (headers: Record<string, string>, size = 0) => {
    const asking = httpCall('ask');
    const message = { ...asking, id: ++ids, params: { ...asking.params, arguments: { size } } };
    const response = await send('POST', headers, message);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const event = (await reader.read()).value as string;
    const question = JSON.parse(/^data: (.+)$/m.exec(event)?.[1] as string) as Wire;
    const place = /^id: (.+)$/m.exec(event)?.[1] as string;
    return { question, place, leave: () => reader.cancel() };
  };
  /** Makes a call, answers its question, and leaves what comes of it where it is. */
  const answer = async (headers: Record<string, string>, size = 0) => {
    const { question, place, leave } = await ask(headers, size);
    await leave();
    const result = accept({ name: 'Ada' });
    const response = await send('POST', headers, { jsonrpc: '2.0', id: question.id, result });
    const fetched = () => send('GET', { ...headers, 'last-event-id': place }).then((mail) => mail.text());
    return { status: response.status, fetched };
  };
  const reasons = () => rejected.map(({ reason }) => reason);
  return { valise, send, open, ask, answer, reasons };
}

/** How many bytes of outcomes' texts the heap of this process holds. V8 keeps a long text in pieces. */
async function outcomesInMemory(): Promise<number> {
  const { snapshot, nodes, strings } = JSON.parse(await readText(getHeapSnapshot())) as {
    readonly snapshot: { readonly meta: { readonly node_fields: readonly string[] } };
    readonly nodes: readonly number[];
    readonly strings: readonly string[];
  };
  const fields = snapshot.meta.node_fields;
  const [name, size] = [fields.indexOf('name'), fields.indexOf('self_size')];
  let bytes = 0;
  for (let at = 0; at < nodes.length; at += fields.length)
    if (strings[nodes[at + name]!]?.includes('xxxxxxxx')) bytes += nodes[at + size]!;
  return bytes;
}

describe('outcomes that nobody fetches, without a store', () => {
  it('uncollected outcomes of one caller are limited in bytes, and one more answer is refused', async () => {
    const { open, answer, reasons } = stage();
    const headers = await open();
    const statuses: number[] = [];
    for (let at = 0; at < 24; at++) statuses.push((await answer(headers, 0.9 * MIB)).status);
    expect(statuses.filter((status) => status === 202).length * 0.9).toBeLessThanOrEqual(16);
    expect(statuses.at(-1)).toBe(500);
    expect(reasons()).toContain('caller-bytes');
    // Others are served.
    expect((await answer(await open(), 1000)).status).toBe(202);
  });

  it('uncollected outcomes of all anonymous callers are limited in bytes, and a principal is not locked out', async () => {
    const { open, answer, reasons } = stage({
      flows: { limits: { total: { bytes: 200_000 }, recordBytes: 50_000 } },
    });
    const statuses: number[] = [];
    for (let at = 0; at < 12; at++) statuses.push((await answer(await open(), 20_000)).status);
    expect(statuses.filter((status) => status === 202).length).toBeLessThanOrEqual(5);
    expect(reasons()).toContain('anonymous-bytes');
    expect((await answer(await open({ 'x-user': 'ada' }), 20_000)).status).toBe(202);
  });

  it.each([
    ['caller-count', { perCaller: { records: 6 } }],
    ['anonymous-count', { total: { records: 12 } }],
  ])('uncollected outcomes are limited in number too (%s)', async (reason, limits) => {
    const { open, answer, ask, reasons } = stage({ flows: { limits } });
    const headers = await open();
    for (let at = 0; at < 3; at++) expect((await answer(headers)).status).toBe(202);
    expect((await ask(headers)).question.error).toMatchObject({ code: -32603 });
    expect(reasons()).toContain(reason);
  });

  it('an outcome that is too large by itself is replaced by an error', async () => {
    const { open, answer, reasons } = stage();
    const { status, fetched } = await answer(await open(), 1.2 * MIB);
    expect(status).toBe(202);
    expect(await fetched()).toContain('the result is too large to be kept until it is fetched');
    expect(reasons()).toContain('record-bytes');
  });

  it('uncollected outcomes leave memory when they expire, even if nothing else is requested', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] });
    const { open, answer } = stage();
    const before = await outcomesInMemory();
    for (let at = 0; at < 20; at++) expect((await answer(await open(), 0.9 * MIB)).status).toBe(202);
    expect((await outcomesInMemory()) - before).toBeGreaterThan(10 * MIB);
    await vi.advanceTimersByTimeAsync(15 * 60_000);
    expect((await outcomesInMemory()) - before).toBeLessThan(MIB);
  });
});

describe.each(MAJORS)('the contexts of open questions, in the store of an SDK $major server', (major) => {
  const work = async (
    _: unknown,
    flow: { ask: (key: string, question: typeof name) => Promise<unknown> },
  ) => {
    await flow.ask('a', name);
    await flow.ask('b', name);
    return text('done');
  };
  const long = (length: number) => call({ long: 'x'.repeat(length) });

  it('the contexts of open questions are limited in bytes, each of them and those of one caller', async () => {
    const store = memoryStore();
    const { valise, say, rejected, close } = await flowPeer(major, work as never, {
      options: { store },
      capabilities: ours('state'),
    });
    expect((await say(long(1.2 * MIB))).result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/and no more than 1048576 may be kept/) }],
    });
    const told: Wire[] = [];
    for (let at = 0; at < 24; at++) told.push(await say(long(0.9 * MIB)));
    expect(told.filter(({ method }) => method).length * 0.9).toBeLessThanOrEqual(16);
    expect(told.at(-1)?.result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('Too much is open on this server.') }],
    });
    const reasons = rejected.map(({ reason }) => reason);
    expect(reasons).toContain('record-bytes');
    expect(reasons).toContain('caller-bytes');
    expect(valise.flows.counts().refused).toBe(0);
    await close();
  });

  it('contexts are limited together with their journals in mode stored, and large answers end the call quickly', async () => {
    const { say, close } = await flowPeer(major, work as never, {
      options: { store: memoryStore(), flows: { mode: 'stored' } },
    });
    const answer = { requestState: '', inputResponses: { a: accept({ name: 'x'.repeat(0.6 * MIB) }) } };
    answer.requestState = (await say(modernCall())).result.requestState;
    const second = (await say(modernCall({}, answer))).result;
    expect(Object.keys(second.inputRequests)).toEqual(['b']);
    const more = { b: accept({ name: 'x'.repeat(0.6 * MIB) }) };
    const last = await say(modernCall({}, { requestState: second.requestState, inputResponses: more }));
    // The journal of both would be too long to be kept, and the handler needs nothing kept any more.
    expect(last.result).toMatchObject(text('done'));
    const huge = { a: accept({ name: 'x'.repeat(1.2 * MIB) }) };
    const { requestState } = (await say(modernCall())).result;
    expect((await say(modernCall({}, { requestState, inputResponses: huge }))).result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('the answers of this call are too large') }],
    });
    await close();
  });

  it('contexts do not grow with answers that are waited for in memory', async () => {
    let asked = 0;
    const { say, close } = await flowPeer(
      major,
      async (_, flow) => {
        for (;;) await flow.ask(`q${++asked}`, name);
      },
      { capabilities: { elicitation: {} } },
    );
    let next = await say(call());
    for (let at = 0; at < 20 && next.method; at++)
      next = await say(echo(next, accept({ name: 'x'.repeat(0.3 * MIB) })));
    expect(next.result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('the answers of this call are too large') }],
    });
    expect(asked).toBeLessThan(6);
    await close();
  });
});

describe('calls that wait', () => {
  it.each(MAJORS)('calls of one caller that wait in memory are limited ($major)', async (major) => {
    const { say, rejected, close } = await flowPeer(
      major,
      async (_, flow) => {
        await flow.ask('a', name);
        return text('done');
      },
      {
        capabilities: { elicitation: {} },
        options: { flows: { limits: { perCaller: { waiting: 2 } } } },
      },
    );
    const first = await say(call());
    await say(call());
    expect((await say(call())).result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('Too much is open on this server.') }],
    });
    expect(rejected).toMatchObject([{ reason: 'waiting-caller-count' }]);
    // One that is answered makes room for another.
    expect((await say(echo(first, accept({})))).result).toMatchObject(text('done'));
    expect((await say(call())).method).toBe('elicitation/create');
    await close();
  });

  it('calls that wait on HTTP streams are limited, for one caller and in total', async () => {
    const { send, open, ask, reasons } = stage({
      flows: { limits: { perCaller: { waiting: 2 }, total: { waiting: 8 } } },
    });
    const headers = await open();
    const { leave, place } = await ask(headers);
    await ask(headers);
    expect((await ask(headers)).question.error).toMatchObject({ code: -32603 });
    expect((await send('GET', { ...headers, 'last-event-id': place })).status).toBe(503);
    expect(reasons()).toEqual(['waiting-caller-count', 'waiting-caller-count']);
    await leave();
    await vi.waitFor(async () => expect((await ask(headers)).question.method).toBe('elicitation/create'));
    for (let at = 0; at < 2; at++) await ask(await open());
    expect((await ask(await open())).question.error).toMatchObject({ code: -32603 });
    expect(reasons().at(-1)).toBe('waiting-anonymous-count');
  });
});

it('createValise() refuses invalid limits', () => {
  const make = (limits: object) => () => createValise({ name: 'test', flows: { limits } });
  expect(make({ recordBytes: 2 * MIB })).toThrow('Give at most 1572864');
  expect(make({ recordBytes: -1 })).toThrow('a whole number');
  expect(make({ perCaller: { records: '1' } })).toThrow('a whole number');
  expect(make({ perUser: {} })).toThrow('has no option perUser');
});
