import { AsyncResource } from 'node:async_hooks';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { createMcpHandler, type McpServer } from '@modelcontextprotocol/server';
import { createValise, type FactoryOptions } from 'mcp-valise/server';
import { z } from 'zod';
import { text } from './flow-peer.ts';
import { MAJORS, type Major, setHandler } from './majors.ts';

export const NEWER = '2026-07-28';
const OLDER = '2025-11-25';

/** The ways in which a server is built for each request. */
export const WAYS = [
  { way: `v1, ${OLDER}`, major: MAJORS[0], version: OLDER },
  { way: `v2, ${OLDER}`, major: MAJORS[1], version: OLDER },
  { way: `v2, ${NEWER}`, major: MAJORS[1], version: NEWER },
] as const;
export type Way = (typeof WAYS)[number];

/** Who asks. */
export interface Caller {
  /** The name that the client declares, if it declares one. */
  readonly client?: string | undefined;
  readonly capabilities?: object;
  readonly principal?: string | undefined;
}

/** What a handler is given to send with, in either major. */
interface Context {
  readonly sendNotification?: (notification: object) => Promise<void>;
  readonly mcpReq?: { notify(notification: object): Promise<void> };
  readonly authInfo?: { readonly extra?: object };
  readonly http?: { readonly authInfo?: { readonly extra?: object } };
}

type Signal = { readonly promise: Promise<void>; readonly fire: () => void };
const signal = (): Signal => {
  let fire = (): void => {};
  const promise = new Promise<void>((resolve) => {
    fire = resolve;
  });
  return { promise, fire };
};

const notify = (context: Context, mark: string): Promise<void> => {
  const notification = { method: 'notifications/message', params: { level: 'error', data: mark } };
  return context.mcpReq
    ? context.mcpReq.notify(notification)
    : (context.sendNotification?.(notification) ?? Promise.resolve());
};

/** One stateless server that is built for each request, by {@link valise.factory} or anew. */
export class World {
  builds = 0;
  /** What handlers have left to be done after they answered. */
  lates: (() => Promise<unknown>)[] = [];
  readonly warnings: string[] = [];
  /** Sends with what the call that is held was given, from wherever it is called. */
  notifyHeld: (mark: string) => Promise<void> = async () => {};
  /** The server that was built last. */
  last: McpServer | undefined;
  readonly #way: Way;
  readonly #kept: Context[] = [];
  readonly #valise = createValise({
    name: 'test',
    keys: 'ephemeral',
    events: { warning: ({ what }) => this.warnings.push(what) },
  });
  #hold: { readonly entered: Signal; readonly gate: Signal } | undefined;
  readonly #answer: (request: Request, authInfo: object | undefined) => Promise<Response>;

  constructor(way: Way, options: FactoryOptions = {}) {
    this.#way = way;
    const make = this.#valise.factory(() => this.#build(way.major), options);
    const handler = way.major.major === 'v2' ? createMcpHandler(make) : undefined;
    this.#answer = async (request, authInfo) => {
      const given = (authInfo ? { authInfo } : {}) as { authInfo?: never };
      if (handler) return handler.fetch(request, given);
      const server = make();
      const transport = new WebStandardStreamableHTTPServerTransport();
      await server.connect(transport as never);
      request.signal.addEventListener('abort', () => void transport.close());
      const response = await transport.handleRequest(request, given);
      const body = await response.text().catch(() => '');
      await transport.close();
      // Twice, and late, as many do it on `finish` and on `close`.
      await server.close();
      this.closes.push(() => server.close());
      return new Response(body, { status: response.status === 202 ? 200 : response.status });
    };
  }

  /** Closes of servers that were closed before. */
  readonly closes: (() => Promise<void>)[] = [];

  /** Sends a request, and resolves to all messages that come back. */
  async ask(method: string, params: object, caller: Caller = {}, abort?: AbortSignal): Promise<unknown[]> {
    const isNewer = this.#way.version === NEWER;
    const info = caller.client === undefined ? undefined : { name: caller.client, version: '1.0.0' };
    const meta = {
      'io.modelcontextprotocol/protocolVersion': NEWER,
      'io.modelcontextprotocol/clientCapabilities': caller.capabilities ?? {},
      ...(info && { 'io.modelcontextprotocol/clientInfo': info }),
    };
    const { name } = params as { name?: string };
    const request = new Request('http://127.0.0.1/mcp', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': this.#way.version,
        ...(isNewer && { 'mcp-method': method, ...(name !== undefined && { 'mcp-name': name }) }),
      },
      // The same id each time, as different clients have it.
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method,
        params: { ...params, ...(isNewer && { _meta: meta }) },
      }),
      ...(abort && { signal: abort }),
    });
    const { principal } = caller;
    const authInfo =
      principal === undefined
        ? undefined
        : { token: 'token', clientId: 'client', scopes: [], expiresAt: 9e9, extra: { sub: principal } };
    const response = await this.#answer(request, authInfo);
    const body = await response.text().catch(() => '');
    const lines = body.includes('data: ')
      ? body.split('\n').flatMap((line) => (line.startsWith('data: ') ? [line.slice(6)] : []))
      : [body];
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line));
  }

  call(name: string, mark: string, caller?: Caller, abort?: AbortSignal): Promise<unknown[]> {
    return this.ask('tools/call', { name, arguments: { mark } }, caller, abort);
  }

  initialize(caller: Caller): Promise<unknown[]> {
    return this.ask('initialize', {
      protocolVersion: OLDER,
      capabilities: caller.capabilities ?? {},
      clientInfo: { name: caller.client ?? 'nobody', version: '1.0.0' },
    });
  }

  /** Runs `during` while a call is being handled; resolves to what the call is answered. */
  async during(
    mark: string,
    caller: Caller,
    during: () => Promise<unknown>,
    abort?: AbortSignal,
  ): Promise<unknown[]> {
    const entered = signal();
    const gate = signal();
    this.#hold = { entered, gate };
    const answer = this.call('hold', mark, caller, abort).catch(() => ['hung up']);
    await Promise.race([entered.promise, answer]);
    await during();
    gate.fire();
    return answer;
  }

  #build(major: Major): McpServer {
    this.builds++;
    const server = new major.McpServer({ name: 'test', version: '1.0.0' }, { capabilities: { logging: {} } });
    this.last = server;
    const tool = (name: string, handle: (mark: string, context: Context) => unknown): unknown =>
      server.registerTool(name, { inputSchema: z.object({ mark: z.string() }) }, async ({ mark }, context) =>
        text(JSON.stringify((await handle(mark, context as Context)) ?? 'done')),
      );
    const { server: inner } = server;
    const client = () => [inner.getClientVersion()?.name, inner.getClientCapabilities()];
    const isIgnored = () =>
      (inner as unknown as { isMessageIgnored(level: string): boolean }).isMessageIgnored('debug');
    tool('who', (_, context) => {
      const { extra } = context.http?.authInfo ?? context.authInfo ?? {};
      return [
        client(),
        extra,
        isIgnored(),
        (inner.getNegotiatedProtocolVersion as (() => string) | undefined)?.call(inner),
      ];
    });
    tool('notify', (mark, context) => notify(context, mark));
    tool('register', (mark) => void server.registerTool(mark, {}, async () => text(mark)));
    tool('handle', (mark) =>
      setHandler(major, server, 'tools/list', async () => ({
        tools: [{ name: mark, inputSchema: { type: 'object' } }],
      })),
    );
    const plain = server.registerTool('plain', {}, async () => text('plain'));
    tool('disable', () => plain.disable());
    tool('describe', (mark) => plain.update({ description: mark }));
    tool('throw', (mark) => {
      throw new Error(mark);
    });
    tool('listen', (mark) => {
      inner.onerror = () => void mark;
    });
    // Nobody answers, and the call does not wait for it.
    tool(
      'request',
      () =>
        void Promise.resolve()
          .then(() => inner.ping())
          .catch(() => {}),
    );
    tool('keep', (_, context) => void this.#kept.push(context));
    tool('use-kept', async (mark) => {
      for (const context of this.#kept.splice(0)) await notify(context, mark).catch(() => {});
    });
    tool('hold', async (mark, context) => {
      const hold = this.#hold;
      this.notifyHeld = (outside) => notify(context, outside);
      hold?.entered.fire();
      await hold?.gate.promise;
      await notify(context, mark).catch(() => {});
      return [client(), isIgnored()];
    });
    const later = (work: () => Promise<unknown>) => void this.lates.push(AsyncResource.bind(work));
    tool('late-notify', (mark, context) =>
      later(() =>
        notify(context, mark).then(
          () => 'sent',
          () => 'refused',
        ),
      ),
    );
    tool(
      'late-unbound',
      (mark, context) =>
        void this.lates.push(() =>
          notify(context, mark).then(
            () => 'sent',
            () => 'refused',
          ),
        ),
    );
    tool('late-server', (mark) =>
      later(async () => {
        const notification = {
          method: 'notifications/message',
          params: { level: 'error', data: mark },
        } as const;
        // With the id of the next request, which has the same one as this.
        await inner.notification(notification, { relatedRequestId: 1 }).catch(() => {});
        await server.sendLoggingMessage({ level: 'error', data: mark }).catch(() => {});
      }),
    );
    tool('late-register', (mark) =>
      later(async () => {
        try {
          server.registerTool(mark, {}, async () => text(mark));
        } catch {}
      }),
    );
    tool('late-describe', (mark) =>
      later(async () => {
        try {
          plain.update({ description: mark });
        } catch {}
      }),
    );
    tool('late-handle', (mark) =>
      later(async () => {
        try {
          setHandler(major, server, 'tools/list', async () => ({
            tools: [{ name: mark, inputSchema: { type: 'object' } }],
          }));
        } catch {}
      }),
    );
    tool('late-close', () => later(() => server.close()));
    tool('late-who', () => later(async () => client()));
    return server;
  }
}
