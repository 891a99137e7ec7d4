import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createMcpHandler, type McpServer } from '@modelcontextprotocol/server';
import { createValise, type ServerValise, type ServerValiseOptions } from 'mcp-valise/server';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { endServers, initialize, listen, post } from './http-stage.ts';
import { MAJORS } from './majors.ts';
import { attach, keys, SESSIONS, STAGES, type Wire } from './sessions-tool.ts';
import { SERVER, SESSION } from './state-tool.ts';

afterEach(endServers);

const DATA = 'io.modelcontextprotocol/session';
const CARRYING = { state: {}, ...SESSIONS };
type Meta = Record<string, unknown>;

const make = (options: Partial<ServerValiseOptions> = {}) => {
  const rejected: string[] = [];
  const valise = createValise({
    name: 'test',
    keys,
    ...options,
    events: { rejected: ({ what, reason }) => rejected.push(`${what} ${reason}`) },
  });
  return { valise, rejected };
};

/** A server with a tool that reads both scopes, and sets them where it is given a value. */
const build = (valise: ServerValise, major: (typeof MAJORS)[number]) => (): McpServer => {
  const server = valise.install(new major.McpServer({ name: 'test', version: '1.0.0' }));
  server.registerTool('note', { inputSchema: z.object({ value: z.string().optional() }) }, async (args) => {
    const { session, server: lasting } = valise.jar;
    const seen = [session.get('note') ?? null, lasting.get('note') ?? null];
    if (args.value !== undefined) {
      session.set('note', args.value);
      lasting.set('note', args.value);
    }
    return { content: [{ type: 'text', text: JSON.stringify(seen) }] };
  });
  return server;
};

const HTTP: Record<string, (valise: ServerValise, edge: boolean) => RequestListener> = {
  v1: (valise, edge) => {
    const handle = async (request: IncomingMessage, response: ServerResponse, body?: unknown) => {
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined as never });
      await build(valise, MAJORS[0])().connect(transport as never);
      await transport.handleRequest(request, response, body);
    };
    return (edge ? valise.http(handle) : handle) as RequestListener;
  },
  v2: (valise, edge) => {
    const handler = toNodeHandler(createMcpHandler(build(valise, MAJORS[1])));
    return (edge ? valise.http(handler as never) : handler) as RequestListener;
  },
};

/** The `_meta` that a client sends back: what the last result set. */
const carried = (meta: Meta | undefined): Meta => ({
  [SESSION]: meta?.[SESSION] ?? {},
  [SERVER]: meta?.[SERVER] ?? {},
});

const seenIn = (result: unknown) =>
  JSON.parse((result as { content: { text: string }[] }).content[0]?.text as string) as unknown;

describe.each(Object.keys(HTTP))('session-scope state over HTTP (SDK %s)', (major) => {
  const serve = async (edge: boolean, options: Partial<ServerValiseOptions> = {}) => {
    const made = make(options);
    const url = await listen(HTTP[major]!(made.valise, edge));
    const client = async () => {
      const { headers } = await post(url, initialize(CARRYING));
      const id = headers.get('mcp-session-id');
      const send = async (method: string, params: object) => {
        const body = { jsonrpc: '2.0', id: 1, method, params };
        return (await post(url, body, id === null ? {} : { 'mcp-session-id': id })).message;
      };
      const note = async (_meta: Meta, value?: string) => {
        const { result } = await send('tools/call', { name: 'note', arguments: { value }, _meta });
        return { seen: seenIn(result), meta: (result as { _meta?: Meta })._meta };
      };
      return { send, note };
    };
    return { ...made, client };
  };

  it('session-scope state opens only in the transport session that it was set in', async () => {
    const { client, rejected } = await serve(true);
    const [a, b] = [await client(), await client()];
    const mine = carried((await a.note(carried(undefined), 'tea')).meta);
    expect((await a.note(mine)).seen).toEqual(['tea', 'tea']);
    expect(rejected).toEqual([]);
    expect((await b.note(mine)).seen).toEqual([null, 'tea']);
    expect(rejected).toEqual([expect.stringMatching(/session state "note".*wrong-binding/)]);
  });

  it('session-scope state opens only in the data-layer session that it was set in, on any transport session', async () => {
    const { client, rejected } = await serve(true, { sessions: {} });
    const [a, b] = [await client(), await client()];
    const create = async () =>
      ((await a.send('sessions/create', {})).result as unknown as { session: Wire }).session;
    const [one, two] = [await create(), await create()];
    const within = ({ sessionId, state }: Wire): Meta => ({ [DATA]: { sessionId, state } });
    const { meta } = await a.note({ ...carried(undefined), ...within(one) }, 'tea');
    const mine = carried(meta);
    expect((await a.note({ ...mine, ...within(one) })).seen).toEqual(['tea', 'tea']);
    expect((await b.note({ ...mine, ...within(one) })).seen).toEqual(['tea', 'tea']);
    expect(rejected).toEqual([]);
    expect((await a.note({ ...mine, ...within(two) })).seen).toEqual([null, 'tea']);
    expect((await a.note(mine)).seen).toEqual([null, 'tea']);
    expect(rejected).toHaveLength(2);
  });

  it('session-scope state is not bound if the server has no session of any kind', async () => {
    const { client, rejected } = await serve(false);
    const { meta } = await (await client()).note(carried(undefined), 'tea');
    expect((await (await client()).note(carried(meta))).seen).toEqual(['tea', 'tea']);
    expect(rejected).toEqual([]);
  });

  it('sealed state is refused if it comes plain, or from another server with the same keys', async () => {
    const { client, rejected } = await serve(false, { jar: { server: { declared: {} } } });
    const sibling = await serve(false, { name: 'sibling' });
    const { meta: theirs } = await (await sibling.client()).note(carried(undefined), 'mine now');
    const { note } = await client();
    const foreign = [
      (carried(theirs)[SERVER] as Meta)['note'],
      'admin',
      { role: 'admin' },
      ['admin'],
      7,
      true,
      'v1.AAAAAAAA.AAAA',
    ];
    for (const value of foreign) {
      expect((await note({ [SESSION]: { note: value }, [SERVER]: { note: value } })).seen).toEqual([
        null,
        null,
      ]);
    }
    expect(rejected).toHaveLength(2 * foreign.length);
  });
});

/** How session scope is spelled in an era. */
const spelled = ({ era }: { era: string }) => ({
  valuesIn: (meta: Meta): Meta =>
    era === 'modern' ? (meta['dev.valise/state'] as { session: Meta }).session : (meta[SESSION] as Meta),
  sent: (values: Meta): Meta =>
    era === 'modern' ? { 'dev.valise/state': { session: values } } : { [SESSION]: values },
});
const ANNOUNCED = { state: {}, extensions: { 'dev.valise/state': {} } };

describe.each(STAGES)('session-scope state of connections to $stage', (at) => {
  const { valuesIn, sent } = spelled(at);

  it('session-scope state opens only on the connection that it was set on', async () => {
    const { valise, rejected } = make();
    const client = () => attach(build(valise, at.major), at, ANNOUNCED);
    const [a, b] = [await client(), await client()];
    const set = await a.call('note', { value: 'tea' }, sent({}));
    const values = valuesIn(set._meta as Meta);
    expect(seenIn(await a.call('note', {}, sent(values)))).toEqual(['tea', null]);
    expect(rejected).toEqual([]);
    expect(seenIn(await b.call('note', {}, sent(values)))).toEqual([null, null]);
    expect(rejected).toHaveLength(1);
  });
});

describe('session-scope state on 2026-07-28 over HTTP', () => {
  const at = STAGES[2];
  const { valuesIn, sent } = spelled(at);

  it('session-scope state opens in every request of 2026-07-28, since there are no sessions', async () => {
    const { valise, rejected } = make();
    const client = () => attach(build(valise, at.major), at, ANNOUNCED, { http: true });
    const set = await (await client()).call('note', { value: 'tea' }, sent({}));
    const values = valuesIn(set._meta as Meta);
    expect(seenIn(await (await client()).call('note', {}, sent(values)))).toEqual(['tea', null]);
    expect(rejected).toEqual([]);
  });
});
