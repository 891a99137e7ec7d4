import type { McpServer } from '@modelcontextprotocol/server';
import { createValise, type ServerValise, type ServerValiseOptions, type Session } from 'mcp-valise/server';
import { z } from 'zod';
import type { Meta, Notification, Response, Result } from '../../src/wire/index.ts';
import { MAJORS, type Major } from './majors.ts';
import { type RawClient, rawClient, resultOf, textOf } from './raw-client.ts';

export const SESSION = 'io.modelcontextprotocol/session';
export const SEQ = 'dev.valise/seq';
export const keys = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';
const v2 = MAJORS[1];

/** What a session client announces, as the draft says. */
export const SESSIONS = { experimental: { sessions: {} } };

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
  valise.events.on('rejected', (event) => rejected.push(event));
  valise.requireSession('gated');
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
  capabilities: object = SESSIONS,
  major: Major = v2,
  { http = false, headers = new Headers() }: { readonly http?: boolean; readonly headers?: Headers } = {},
): Promise<SessionClient> {
  const server = valise.install(
    new major.McpServer(
      { name: 'test', version: '1.0.0' },
      { capabilities: { resources: { subscribe: true }, logging: {} } },
    ),
  );
  const run = made.get(valise) as (args: Record<string, unknown>) => Promise<unknown>;
  for (const name of ['work', 'gated']) {
    server.registerTool(name, { inputSchema: z.looseObject({}) }, async (args) => ({
      content: [{ type: 'text', text: JSON.stringify((await run(args)) ?? null) }],
    }));
  }
  const [near, far] = major.Memory.createLinkedPair();
  await server.connect(far);
  // As a message looks that came over HTTP.
  if (http) {
    near.send = async (message) =>
      far.onmessage?.(message, { request: new Request('http://test/mcp', { headers }) } as never);
  }
  const client = await rawClient(near, capabilities);
  const heard: Notification[] = [];
  const { onmessage } = near;
  near.onmessage = (message) => {
    if ('method' in message) heard.push(message as Notification);
    onmessage?.(message);
  };
  let last: unknown;
  const send = near.send.bind(near);
  near.send = (message, options) => {
    if ('id' in message) last = message.id;
    return send(message, options);
  };
  return sessionClient(client, {
    heard,
    server,
    lastId: () => last,
    notify: (method, params) => near.send({ jsonrpc: '2.0', method, params } as never),
  });
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

export function sessionClient(client: RawClient, more: Partial<SessionClient> = {}): SessionClient {
  const inSession: SessionClient['in'] = (session, name = 'work', args = {}) =>
    client.request('tools/call', { name, arguments: args, _meta: sent(session) });
  return {
    ...client,
    ...(more as Pick<SessionClient, 'heard' | 'server' | 'lastId' | 'notify'>),
    create: async (params) => resultOf(await client.request('sessions/create', params))['session'] as Wire,
    in: inSession,
    async use(session, args, name) {
      const result = resultOf(await inSession(session, name, args));
      return { value: JSON.parse(textOf(result)) as unknown, session: { ...session, ...sessionIn(result) } };
    },
  };
}

/** The `_meta` with which a client of the draft sends a session. */
export function sent({ sessionId, state }: Wire): Meta {
  return { [SESSION]: { sessionId, ...(state !== undefined && { state }) } };
}

export function sessionIn(result: Result): Wire | undefined {
  return result._meta?.[SESSION] as Wire | undefined;
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
