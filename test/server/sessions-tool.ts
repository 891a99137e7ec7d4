import { createMcpHandler, type McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { createValise, type ServerValise, type ServerValiseOptions, type Session } from 'mcp-valise/server';
import { z } from 'zod';
import type { TransportLike } from '../../src/core/instrument.ts';
import type { Era, Message, Meta, Notification, Response, Result } from '../../src/wire/index.ts';
import { HEADERS } from './http-stage.ts';
import { MAJORS, type Major } from './majors.ts';
import { type RawClient, rawClient, resultOf, textOf } from './raw-client.ts';

export const SEQ = 'dev.valise/seq';
export const keys = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';

/** What a session client announces, as the draft says. */
export const SESSIONS = { experimental: { sessions: {} } };

/** What a spelling calls things; written out here, since the tests are about what is on the wire. */
const SPELLINGS = {
  legacy: {
    key: 'io.modelcontextprotocol/session',
    method: {
      create: 'sessions/create',
      delete: 'sessions/delete',
      list: 'sessions/list',
      resume: 'sessions/resume',
      recover: 'sessions/recover',
      fork: 'sessions/fork',
      listen: 'messages/listen',
    },
    listening: 'notifications/messages/listen',
    code: { notFound: -32043, required: -32044 },
    header: 'mcp-session-id',
    announces: SESSIONS,
  },
  modern: {
    key: 'dev.valise/session',
    method: {
      create: 'dev.valise/sessions/create',
      delete: 'dev.valise/sessions/delete',
      list: 'dev.valise/sessions/list',
      resume: 'dev.valise/sessions/resume',
      recover: 'dev.valise/sessions/recover',
      fork: 'dev.valise/sessions/fork',
      listen: 'dev.valise/listen',
    },
    listening: 'notifications/dev.valise/listen',
    code: { notFound: -31043, required: -31044 },
    header: 'valise-session-id',
    announces: { extensions: { 'dev.valise/sessions': {} } },
  },
} as const;

/** A server of one major that speaks one era. SDK v1 has only the older one. */
export const STAGES = [
  stage(MAJORS[0], 'legacy'),
  stage(MAJORS[1], 'legacy'),
  stage(MAJORS[1], 'modern'),
] as const;

/** The same, and on 2026-07-28 also a client that uses and announces the drafts' names alone. */
export const ALL_STAGES = [...STAGES, stage(MAJORS[1], 'modern', 'legacy')] as const;

export type Stage = ReturnType<typeof stage>;

function stage(major: Major, era: Era, spelling = era) {
  const { key, code, ...names } = SPELLINGS[spelling];
  return {
    stage: `an SDK ${major.major} server (${era}${spelling === era ? '' : ", in the drafts' names"})`,
    major,
    era,
    /** Whether the client uses our names. */
    isOurs: spelling === 'modern',
    /** What a result has besides its content. */
    complete: era === 'modern' ? { resultType: 'complete' } : {},
    key,
    code,
    ...names,
    /** The `_meta` with which a client sends a session. */
    sent: ({ sessionId, state }: Wire): Meta => ({
      [key]: { sessionId, ...(state !== undefined && { state }) },
    }),
    /** The session in the `_meta` of a result. */
    sessionIn: (result: Result) => result._meta?.[key] as Wire | undefined,
    /** The answer to a session that is unknown, for whatever reason. */
    unknown: ({ sessionId }: Wire) => ({
      code: code.notFound,
      message: 'Session not found',
      data: { sessionId },
    }),
    required: { code: code.required, message: 'Session required' },
  };
}

/** A session as the wire shows it. */
export interface Wire {
  readonly sessionId: string;
  readonly state?: string;
  readonly expiresAt?: string;
}

/** Does with the session what a test says; what it returns is the text of the result. */
export type Does = (session: Session | undefined, args: Record<string, unknown>) => unknown;

/** A server with two tools: `work`, which needs no session, and `gated`, which needs one. */
export function makeServer(
  does: Does,
  options: Partial<ServerValiseOptions> = {},
): {
  readonly valise: ServerValise;
  readonly rejected: { what: string; reason: string }[];
  readonly ran: () => number;
} {
  const valise = createValise({ name: 'test', keys, sessions: {}, ...options });
  const rejected: { what: string; reason: string }[] = [];
  let ran = 0;
  valise.on('rejected', (event) => rejected.push(event));
  valise.sessions.require('gated');
  made.set(valise, async (args) => {
    ran++;
    return does(valise.session(), args);
  });
  return { valise, rejected, ran: () => ran };
}

const made = new WeakMap<ServerValise, (args: Record<string, unknown>) => Promise<unknown>>();

/** A new connection to it. */
export async function connect(
  valise: ServerValise,
  stage: Stage,
  capabilities: object = stage.announces,
  over: Over = {},
): Promise<SessionClient> {
  const { major } = stage;
  const run = made.get(valise) as (args: Record<string, unknown>) => Promise<unknown>;
  const build = (): McpServer => {
    const server = valise.install(
      new major.McpServer(
        { name: 'test', version: '1.0.0' },
        { capabilities: { resources: { subscribe: true }, logging: {} } },
      ),
    );
    for (const name of ['work', 'gated']) {
      server.registerTool(name, { inputSchema: z.looseObject({}) }, async (args) => ({
        content: [{ type: 'text', text: JSON.stringify((await run(args)) ?? null) }],
      }));
    }
    return server;
  };
  return attach(build, stage, capabilities, over);
}

/** How a client reaches a server: in memory; or as over HTTP, with these headers. */
export interface Over {
  readonly http?: boolean;
  readonly headers?: Headers;
}

/** Connects a client to a server that `build` makes. */
export async function attach(
  build: () => McpServer,
  stage: Stage,
  capabilities: object = stage.announces,
  { http = false, headers = new Headers() }: Over = {},
): Promise<SessionClient> {
  const { major, era } = stage;
  let server: McpServer | undefined;
  const kept = (): McpServer => (server = build());
  const [near, far] = major.Memory.createLinkedPair();
  if (era === 'legacy') await kept().connect(far);
  // As a message looks that came over HTTP; each major has its way.
  if (http && era === 'legacy') {
    near.send = async (message) =>
      far.onmessage?.(message, {
        ...(major.major === 'v1'
          ? { requestInfo: { headers: Object.fromEntries(headers) } }
          : { request: new Request('http://test/mcp', { headers }) }),
      } as never);
  }
  if (http && era === 'modern') fetching(near, kept, headers);
  else if (era === 'modern') serveStdio(kept, { transport: far });
  const client = await rawClient(near, capabilities, undefined, era);
  const heard: Notification[] = [];
  const { onmessage } = near;
  near.onmessage = (message) => {
    // As a wire carries it.
    if ('method' in message) heard.push(JSON.parse(JSON.stringify(message)) as Notification);
    onmessage?.(message);
  };
  let last: unknown;
  const send = near.send.bind(near);
  near.send = (message, options) => {
    if ('id' in message) last = message.id;
    return send(message, options);
  };
  return sessionClient(client, stage, {
    heard,
    server: server as unknown as McpServer,
    lastId: () => last,
    notify: (method, params) => near.send({ jsonrpc: '2.0', method, params } as never),
  });
}

/** Has the SDK's own HTTP handler answer what is sent, each request on a server of its own. */
function fetching(near: TransportLike, build: () => McpServer, headers: Headers): void {
  const handler = createMcpHandler(build);
  near.send = async (message: Message) => {
    const { method, params } = message as { method: string; params?: { name?: string } };
    const request = new Request('http://test/mcp', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': method,
        ...(params?.name && { 'mcp-name': params.name }),
        ...Object.fromEntries(headers),
      },
      body: JSON.stringify(message),
    });
    const text = await (await handler.fetch(request)).text();
    near.onmessage?.(JSON.parse(/^data: (\{.*)$/m.exec(text)?.[1] ?? text));
  };
}

/** A raw client with words for sessions. */
export interface SessionClient extends RawClient {
  /** Notifications that have come. */
  readonly heard: Notification[];
  /** The server at the other end. */
  readonly server: McpServer;
  /** The id of the request that was sent last. */
  lastId(): unknown;
  notify(method: string, params: object): Promise<void>;
  create(params?: object): Promise<Wire>;
  /** Calls a tool in a session; the whole response. */
  in(session: Wire, name?: string, args?: object): Promise<Response>;
  /** Calls a tool in a session; its value, and the session after it. */
  use(
    session: Wire,
    args?: object,
    name?: string,
  ): Promise<{ readonly value: unknown; readonly session: Wire }>;
}

function sessionClient(
  client: RawClient,
  { method, sent, sessionIn }: Stage,
  more: Partial<SessionClient> = {},
): SessionClient {
  const inSession: SessionClient['in'] = (session, name = 'work', args = {}) =>
    client.request('tools/call', { name, arguments: args, _meta: sent(session) });
  return {
    ...client,
    ...(more as Pick<SessionClient, 'heard' | 'server' | 'lastId' | 'notify'>),
    create: async (params) => resultOf(await client.request(method.create, params))['session'] as Wire,
    in: inSession,
    async use(session, args, name) {
      const result = resultOf(await inSession(session, name, args));
      return { value: JSON.parse(textOf(result)) as unknown, session: { ...session, ...sessionIn(result) } };
    },
  };
}

export function errorOf(response: Response): { code: number; message: string; data?: unknown } {
  if ('error' in response) return response.error;
  throw new Error(`no error: ${JSON.stringify(response.result)}`);
}

/** Counts in the session. */
export const count: Does = (session) => {
  const n = (session?.get<number>('n') ?? 0) + 1;
  session?.set('n', n);
  return n;
};

const minted = new Map<string, Promise<string>>();

/** Does `work` as what comes through the HTTP edge of a Valise, in a session of that name which a seal proves. */
export async function behindEdge<Value>(
  valise: ServerValise,
  name: string,
  work: () => Promise<Value>,
): Promise<Value> {
  const post = (method: string, params: object, answer: () => Promise<globalThis.Response>, id?: string) =>
    valise.http((_request: globalThis.Request) => answer())(
      new Request('http://test/mcp', {
        method: 'POST',
        headers: { ...HEADERS, ...(id !== undefined && { 'mcp-session-id': id }) },
        body: JSON.stringify({ jsonrpc: '2.0', id: 'edge', method, params }),
      }),
    );
  const mint = async (): Promise<string> => {
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name, version: '1' } };
    const { headers } = await post('initialize', params, async () => Response.json({}));
    return headers.get('mcp-session-id') as string;
  };
  const session = minted.get(name) ?? mint();
  minted.set(name, session);
  const id = await session;
  let value: Value | undefined;
  await post(
    'ping',
    {},
    async () => {
      value = await work();
      return new Response();
    },
    id,
  );
  return value as Value;
}
