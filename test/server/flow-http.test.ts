import { request as httpRequest, type IncomingMessage, type RequestListener } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { generateKey } from 'mcp-valise/seal';
import { createValise, type ServerValiseOptions } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { accept, text, type Wire } from './flow-peer.ts';
import { build, CARRIERS, call, endServers, FORMS, HEADERS, initialize, listen, post } from './http-stage.ts';
import { MAJORS } from './majors.ts';

afterEach(endServers);

describe.each(Object.entries(FORMS))('the HTTP edge (%s)', (_, form) => {
  const stage = async (options: Partial<ServerValiseOptions> = {}) => {
    const valise = createValise({ name: 'test', ...options });
    const url = await listen(form(valise));
    const open = async (capabilities: object, version?: string) => {
      const { headers, status } = await post(url, initialize(capabilities, version), {});
      expect(status).toBe(200);
      return headers.get('mcp-session-id') as string;
    };
    return { valise, url, open };
  };
  const elicitation = {};

  it('the HTTP edge identifies a client on any instance by its session id', async () => {
    const keys = generateKey();
    const [one, two] = await Promise.all([stage({ keys }), stage({ keys })]);
    const session = await one.open({ elicitation, extensions: CARRIERS });
    expect(session).toMatch(/^v1\./);
    const asked = await post(two.url, call('ask'), { 'mcp-session-id': session });
    expect(asked.message).toMatchObject({ method: 'elicitation/create', state: expect.any(String) });
    const answer = {
      jsonrpc: '2.0',
      id: asked.message.id,
      state: asked.message.state,
      result: accept({ name: 'Ada' }),
    };
    const done = await post(one.url, answer, { 'mcp-session-id': session });
    expect(done).toMatchObject({
      status: 200,
      message: { id: 7, result: { content: [{ text: 'hello Ada' }] } },
    });
  });

  it('the HTTP edge needs no session id if the answer itself identifies the client', async () => {
    const { url, open } = await stage();
    const session = await open({ elicitation, extensions: CARRIERS });
    const asked = await post(url, call('ask'), { 'mcp-session-id': session });
    const answer = {
      jsonrpc: '2.0',
      id: asked.message.id,
      state: asked.message.state,
      result: accept({ name: 'Ada' }),
    };
    expect((await post(url, answer)).message).toMatchObject({
      id: 7,
      result: { content: [{ text: 'hello Ada' }] },
    });
  });

  it('a call that is too large for the id of a question gets an error that does not suggest a budget', async () => {
    const { url, open } = await stage();
    const session = { 'mcp-session-id': await open({ elicitation }) };
    const asking = call('ask');
    const params = { ...asking.params, arguments: { long: 'x'.repeat(6000) } };
    const { message } = await post(url, { ...asking, params }, session);
    const said = message.result.content[0].text;
    expect(said).toMatch(
      /bytes long, about 8\d{3} of them the call itself .* no more than 6144 may travel\./,
    );
    expect(said).not.toContain('budget');
  });

  it('the HTTP edge asks a client that carries no state by id, and delivers the result', async () => {
    const { url, open } = await stage();
    const session = { 'mcp-session-id': await open({ elicitation }) };
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...HEADERS, ...session, 'mcp-protocol-version': '2025-11-25' },
      body: JSON.stringify(call('ask')),
    });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const event = (await reader.read()).value as string;
    const place = /^id: (.+)$/m.exec(event)?.[1] as string;
    const asked = JSON.parse(/^data: (.+)$/m.exec(event)?.[1] as string) as Wire;
    expect(asked).toEqual({
      jsonrpc: '2.0',
      id: expect.stringMatching(/^v1\./),
      method: 'elicitation/create',
      params: expect.anything(),
    });
    await reader.cancel();

    // The stream has broken. The client comes again for the rest, and answers meanwhile.
    const rest = fetch(url, { headers: { accept: 'text/event-stream', ...session, 'last-event-id': place } });
    const answered = await post(
      url,
      { jsonrpc: '2.0', id: asked.id, result: accept({ name: 'Ada' }) },
      session,
    );
    expect(answered).toMatchObject({ status: 202, body: '' });
    const mail = await (await rest).text();
    expect(mail).toContain('hello Ada');
    // It can fetch it once more, should that have been lost too; and there is nothing after it.
    const again = await fetch(url, {
      headers: { accept: 'text/event-stream', ...session, 'last-event-id': place },
    });
    const last = await again.text();
    expect(last).toContain('hello Ada');
    const end = [...last.matchAll(/^id: (.+)$/gm)].at(-1)?.[1] as string;
    const over = await fetch(url, {
      headers: { accept: 'text/event-stream', ...session, 'last-event-id': end },
    });
    expect(over.status).toBe(405);
  });

  it('the HTTP edge holds the stream of a client that cannot resume', async () => {
    const { url, open } = await stage();
    const version = { 'mcp-protocol-version': '2025-06-18' };
    const session = { 'mcp-session-id': await open({ elicitation }, '2025-06-18') };
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...HEADERS, ...session, ...version },
      body: JSON.stringify(call('ask')),
    });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const asked = JSON.parse(
      /^data: (.+)$/m.exec((await reader.read()).value as string)?.[1] as string,
    ) as Wire;
    const answer = { jsonrpc: '2.0', id: asked.id, result: accept({ name: 'Ada' }) };
    expect((await post(url, answer, { ...session, ...version })).status).toBe(202);
    expect((await reader.read()).value).toContain('hello Ada');
    expect((await reader.read()).done).toBe(true);
  });

  it('the HTTP edge leaves other calls, notifications and bad requests to the SDK', async () => {
    const { url, open } = await stage();
    const session = { 'mcp-session-id': await open({ elicitation }) };
    expect((await post(url, call('plain'), session)).message).toMatchObject({
      id: 7,
      result: { content: [{ text: 'plain' }] },
    });
    expect((await post(url, call('plain'))).message).toMatchObject({
      result: { content: [{ text: 'plain' }] },
    });
    expect((await post(url, { jsonrpc: '2.0', method: 'notifications/initialized' }, session)).status).toBe(
      202,
    );
    expect((await post(url, { jsonrpc: '2.0', id: 'nobody waits', result: {} }, session)).status).toBe(202);
    expect(await post(url, '{"jsonrpc":', session)).toMatchObject({
      status: 400,
      message: { error: { code: -32700 } },
    });
    expect((await post(url, 'x', { 'content-type': 'text/plain' })).status).toBe(415);
    expect((await post(url, { hello: 1 }, session)).status).toBe(400);
    expect((await post(url, `"${'x'.repeat(5_000_000)}"`, session)).status).toBe(413);
    expect((await post(url, { ...call('plain'), method: 'no/such' }, session)).message).toMatchObject({
      error: { code: -32601 },
    });
  });

  it('the HTTP edge refuses forged answers, ids and sessions, and runs nothing', async () => {
    const rejected: string[] = [];
    const { valise, url, open } = await stage({
      events: { rejected: ({ reason }) => rejected.push(reason) },
    });
    const session = await open({ elicitation, extensions: CARRIERS });
    const headers = { 'mcp-session-id': session };
    const asked = await post(url, call('ask'), headers);
    const { id, state } = asked.message;
    const answer = { jsonrpc: '2.0', id, result: accept({ name: 'Ada' }) };
    for (const bad of [`${state}A`, 'AAAA', { an: 'object' }, null]) {
      const refused = await post(url, { ...answer, state: bad }, headers);
      expect(refused).toMatchObject({
        status: 400,
        message: { id: null, error: { code: -32602, message: 'Invalid or expired requestState' } },
      });
    }
    // A context in the wrong place.
    expect((await post(url, { ...answer, id: state }, headers)).status).toBe(400);
    // A question that nobody asked, and that nobody kept.
    expect((await post(url, { ...answer, id: `valise.${'A'.repeat(22)}.1` }, headers)).status).toBe(400);
    expect(valise.flows.counts()).toMatchObject({ refused: 6, answered: 0 });
    // A session that is not genuine any more is gone, as the protocol has it: the client begins a new one.
    const gone = await post(url, call('plain'), { 'mcp-session-id': `${session.slice(0, -3)}AAA` });
    expect(gone).toMatchObject({ status: 404, message: { error: { code: -32001 } } });
    const place = await fetch(url, {
      headers: { accept: 'text/event-stream', ...headers, 'last-event-id': state },
    });
    expect(place.status).toBe(405);
    expect(rejected.join()).not.toContain('v1.');
  });

  it('the HTTP edge answers with an error if the store is closed, and warns the author', async () => {
    const warnings: string[] = [];
    const store = memoryStore();
    const { url, open } = await stage({ store, events: { warning: ({ what }) => warnings.push(what) } });
    const headers = { 'mcp-session-id': await open({ elicitation, extensions: CARRIERS }) };
    const asked = await post(url, call('ask'), headers);
    await store.close();
    const { id, state } = asked.message;
    const failed = await post(url, { jsonrpc: '2.0', id, state, result: accept({ name: 'Ada' }) }, headers);
    expect(failed.status === 500 || failed.message.error?.code === -32603).toBe(true);
    expect(warnings.length).toBeGreaterThan(0);
  });

  it('the HTTP edge survives a client that disconnects in the middle of its request', async () => {
    const { url, open } = await stage();
    const session = await open({ elicitation });
    await new Promise<void>((resolve) => {
      const request = httpRequest(url, { method: 'POST', headers: { ...HEADERS, 'content-length': '1000' } });
      request.on('error', () => resolve());
      request.write('{"jsonrpc":');
      setImmediate(() => request.destroy(new Error('gone')));
    });
    expect((await post(url, call('plain'), { 'mcp-session-id': session })).status).toBe(200);
  });

  it('the HTTP edge asks nobody if it cannot identify the client, and says what to do', async () => {
    const { url } = await stage();
    expect((await post(url, call('ask'))).message.result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('nothing is known about what it can do') }],
    });
  });
});

describe('auth that is verified behind the HTTP edge', () => {
  const stage = async () => {
    const warnings: string[] = [];
    const valise = createValise({ name: 'test', events: { warning: ({ what }) => warnings.push(what) } });
    const url = await listen(
      valise.http(async (request: IncomingMessage, response, body) => {
        const { authorization: user } = request.headers;
        if (user)
          Object.assign(request, { auth: { token: '', clientId: 'app', scopes: [], extra: { sub: user } } });
        const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined as never });
        await build(valise, MAJORS[0]).connect(transport as never);
        await transport.handleRequest(request, response, body);
      }) as RequestListener,
    );
    const ask = async (capabilities: object) => {
      const made = await post(url, initialize(capabilities), { authorization: 'ann' });
      const session = { 'mcp-session-id': made.headers.get('mcp-session-id') as string };
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          ...HEADERS,
          ...session,
          'mcp-protocol-version': '2025-11-25',
          authorization: 'ann',
        },
        body: JSON.stringify(call('ask')),
      });
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      const { id, state } = JSON.parse(
        /^data: (.+)$/m.exec((await reader.read()).value as string)?.[1] as string,
      ) as Wire;
      const answer = { jsonrpc: '2.0', id, ...(state && { state }), result: accept({ name: 'Ada' }) };
      return (headers: Record<string, string>) => post(url, answer, { ...session, ...headers });
    };
    return { ask, warnings };
  };

  it('auth behind the HTTP edge decides who may send an answer that carries its state', async () => {
    const { ask } = await stage();
    const answer = await ask({ elicitation: {}, extensions: CARRIERS });
    for (const other of [{ authorization: 'bob' }, {}] as Record<string, string>[])
      expect((await answer(other)).message.error).toMatchObject({ code: -32602 });
    expect((await answer({ authorization: 'ann' })).message.result).toMatchObject(text('hello Ada'));
  });

  it('auth behind the HTTP edge is too late for a client that carries no state, and a warning says what to do', async () => {
    const { ask, warnings } = await stage();
    const answer = await ask({ elicitation: {} });
    expect((await answer({ authorization: 'ann' })).status).toBe(400);
    expect(warnings).toContainEqual(expect.stringMatching(/nobody was known at valise\.http\(\)/));
  });
});

describe('a server without the HTTP edge', () => {
  it('a flow without the HTTP edge reports that answers cannot reach the server', async () => {
    const warnings: string[] = [];
    const valise = createValise({
      name: 'test',
      events: { warning: ({ what, next }) => warnings.push(`${what} ${next}`) },
    });
    const url = await listen(
      toNodeHandler(createMcpHandler(() => build(valise, MAJORS[1]))) as RequestListener,
    );
    const asked = await post(url, call('ask'));
    expect(asked.message.result).toMatchObject({
      isError: true,
      content: [{ text: '"a" cannot be asked: answers would not find their way back to this server.' }],
    });
    expect(warnings).toContainEqual(expect.stringContaining('Wrap the HTTP handler in valise.http()'));
  });
});

describe.each([
  ['v1', MAJORS[0]],
  ['v2', MAJORS[1]],
] as const)('an SDK %s server with sessions of its own', (_, major) => {
  it('an SDK server keeps its own session ids, and waits in memory for clients that carry no state', async () => {
    const valise = createValise({ name: 'test' });
    let transport: StreamableHTTPServerTransport | undefined;
    const url = await listen(
      valise.http(async (request: IncomingMessage, response, body) => {
        if (!transport) {
          transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => 'own-session' });
          await build(valise, major).connect(transport as never);
        }
        await transport.handleRequest(request, response, body);
      }) as RequestListener,
    );
    const { headers } = await post(url, initialize({ elicitation: {} }));
    expect(headers.get('mcp-session-id')).toBe('own-session');
    const session = { 'mcp-session-id': 'own-session' };
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...HEADERS, ...session, 'mcp-protocol-version': '2025-11-25' },
      body: JSON.stringify(call('ask')),
    });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const asked = JSON.parse(
      /^data: (.+)$/m.exec((await reader.read()).value as string)?.[1] as string,
    ) as Wire;
    expect(asked.id).toMatch(/^valise:/);
    expect(
      (await post(url, { jsonrpc: '2.0', id: asked.id, result: accept({ name: 'Ada' }) }, session)).status,
    ).toBe(202);
    expect((await reader.read()).value).toContain('hello Ada');
  });
});
