import { ValiseError } from '../../core/errors.ts';
import type { TransportLike } from '../../core/instrument.ts';
import { isObject } from '../../core/json.ts';
import { isNotification, isRequest, type Message } from '../../wire/index.ts';
import { runningExchange } from '../exchange.ts';
import { Contents } from './contents.ts';
import { type Handle, type McpServerLike, type Protocol, REGISTRIES } from './reusable.ts';

/** One use of a server, from `connect` until its transport closes. */
interface Lease {
  readonly of: ReusedServer;
  /** Whether nobody had the server before. */
  readonly isFirst: boolean;
  isOver: boolean;
  /** The number of handlers that have not returned. */
  running: number;
  /** The client's data as the server reported it, kept for code that outlives the connection. */
  readonly client: Map<string, unknown>;
}

/** The key of the lease on the transport. Code that outlives its request is identified by the transport of its exchange. */
const LEASE = Symbol('valise.lease');

type Leased = TransportLike & { [LEASE]?: Lease };

/** The methods with which a handler sends: of `extra` in SDK v1, of `ctx.mcpReq` in SDK v2. */
const SENDING = [
  'sendNotification',
  'sendRequest',
  'send',
  'notify',
  'log',
  'elicitInput',
  'requestSampling',
];

/** The methods that change an `McpServer`, and those that change its `Server`. */
const CHANGING_SERVER = ['registerTool', 'registerPrompt', 'registerResource', 'tool', 'prompt', 'resource'];
const CHANGING_PROTOCOL = [
  'setRequestHandler',
  'removeRequestHandler',
  'setNotificationHandler',
  'removeNotificationHandler',
  'registerCapabilities',
];

/** The methods that report about the client. */
const CLIENT = ['getClientVersion', 'getClientCapabilities', 'getNegotiatedProtocolVersion'];

/** Fields that the SDKs replace for each connection. They are reset to their values from when the server was built. */
const PER_CONNECTION = [
  '_clientVersion',
  '_clientCapabilities',
  '_negotiatedProtocolVersion',
  '_supportedProtocolVersions',
] as const;

/** The handler that `createMcpHandler` of SDK v2 sets again for each request. */
const DISCOVER = 'server/discover';

/** Caches that are computed from the registered tools on first use, so they say nothing about a request. */
const CACHES = ['_toolInputSchemaJson'];

/** The events that a {@link ReusedServer} reports to its pool. */
export interface ReuseEnd {
  /** Called when a connection of the server has ended. */
  idle(server: ReusedServer): void;
  /** Called when something was sent outside of any request, so that its connection is unknown. */
  stray(): void;
}

/**
 * A server that serves one connection after another.
 *
 * Code of an earlier connection that still runs sees what it would see on its own server: its connection is closed, its client
 * is the one it had, and it changes nothing.
 */
export class ReusedServer {
  readonly #server: McpServerLike;
  readonly #protocol: Protocol;
  readonly #end: ReuseEnd;
  #lease: Lease | undefined;
  /** The lease whose `ctx` is being used to send, for the duration of that call. */
  #sending: Lease | undefined;
  #uses = 0;
  #built:
    | { readonly server: Contents; readonly protocol: Contents; readonly discover: Handle | undefined }
    | undefined;

  /** Guards a server that has just been built. Install Valise on it next, then call {@link remember}. */
  constructor(server: McpServerLike, end: ReuseEnd) {
    this.#server = server;
    this.#protocol = server.server;
    this.#end = end;
    const { connect } = server;
    server.connect = (transport: TransportLike) => {
      this.#guardTransport(transport);
      return connect.call(server, transport);
    };
    this.#guardHandlers();
    const late = (): never => {
      throw overError();
    };
    this.#guardMethods(server, CHANGING_SERVER, late);
    this.#guardMethods(this.#protocol, CHANGING_PROTOCOL, late);
    for (const registry of REGISTRIES) {
      const records = (server as unknown as Record<string, Record<string, object>>)[registry];
      for (const record of Object.values(records ?? {})) this.#guardMethods(record, ['update'], late);
    }
    this.#guardMethods(this.#protocol, CLIENT, (lease, name) => lease.client.get(name));
    for (const target of [server, this.#protocol])
      this.#guardMethods(target, ['close'], () => Promise.resolve());
  }

  /** Records the server's contents before its first use. */
  remember(): void {
    this.#built = {
      server: new Contents(this.#server, 3, CACHES),
      protocol: new Contents(this.#protocol, 2),
      discover: this.#protocol._requestHandlers.get(DISCOVER),
    };
  }

  /** Whether nothing of its last use is left, after per-connection fields have been reset. */
  isAsBuilt(): boolean {
    const built = this.#built;
    // A handler that still runs may do anything to the server.
    if (!built || this.#protocol.transport !== undefined || this.#lease?.running) return false;
    const fields = this.#protocol as unknown as Record<string, unknown>;
    for (const name of PER_CONNECTION)
      if (fields[name] !== built.protocol.get(name)) fields[name] = built.protocol.get(name);
    const { _requestHandlers: handlers } = this.#protocol;
    if (handlers.get(DISCOVER) !== built.discover) {
      if (built.discover) handlers.set(DISCOVER, built.discover);
      else handlers.delete(DISCOVER);
    }
    // The public methods are checked too: a field that an SDK has renamed is not reset, but is detected here.
    if (this.#tellClient().some((told) => told !== undefined)) return false;
    return built.protocol.areSame() && built.server.areSame();
  }

  /** Returns the server for one connection, as a separate object. Its `close` does nothing after that connection has ended. */
  lend(): McpServerLike {
    const server = this.#server;
    let transport: Leased | undefined;
    let isClosed = false;
    const lent = Object.create(server) as McpServerLike;
    lent.connect = (to: TransportLike) => {
      if (isClosed || transport) return Promise.reject(lentError());
      transport = to;
      return server.connect(to);
    };
    lent.close = async () => {
      if (transport) {
        if (transport[LEASE]?.isOver === false) await transport.close();
        return;
      }
      if (!isClosed) this.#end.idle(this);
      isClosed = true;
    };
    return lent;
  }

  /** Intercepts between the SDK and the transport, closer to the SDK than Valise itself. */
  #guardTransport(transport: Leased): void {
    const lease: Lease = {
      of: this,
      isFirst: this.#uses++ === 0,
      isOver: false,
      running: 0,
      client: new Map(),
    };
    this.#lease = lease;
    transport[LEASE] = lease;
    const { start, send } = transport;
    transport.start = () => {
      transport.start = start;
      const { onmessage, onclose } = transport;
      // A transport may deliver or close again after it has closed. The server then already serves somebody else.
      transport.onmessage = (message: Message, extra?: unknown) => {
        if (!lease.isOver) onmessage?.(message, extra);
      };
      transport.onclose = () => {
        if (lease.isOver) return;
        this.#over(lease);
        onclose?.();
      };
      return start.call(transport);
    };
    transport.send = (message: Message, options?: unknown) => {
      const isOwn = isRequest(message) || isNotification(message);
      if (!isOwn || this.#isFrom(lease)) return send.call(transport, message, options);
      return isRequest(message) ? Promise.reject(overError()) : Promise.resolve();
    };
  }

  /** Returns what the {@link CLIENT} methods report. A new server reports nothing. */
  #tellClient(): unknown[] {
    const protocol = this.#protocol as unknown as Record<string, (() => unknown) | undefined>;
    return CLIENT.map((name) => protocol[name]?.());
  }

  #over(lease: Lease): void {
    for (const [at, told] of this.#tellClient().entries()) lease.client.set(CLIENT[at] as string, told);
    lease.isOver = true;
    this.#end.idle(this);
  }

  /** Whether the message being sent comes from the request that the server is serving. */
  #isFrom(lease: Lease): boolean {
    const from = this.#sending ?? presentLease();
    if (from === lease) return true;
    if (from?.of === this) return false;
    this.#end.stray();
    return lease.isFirst;
  }

  #guardHandlers(): void {
    const { _requestHandlers: handlers } = this.#protocol;
    for (const [method, handle] of handlers) {
      handlers.set(method, async (request, context) => {
        const lease = this.#lease;
        if (!lease) return handle(request, context);
        this.#guardContext(context, lease);
        lease.running++;
        try {
          return await handle(request, context);
        } finally {
          lease.running--;
        }
      });
    }
  }

  /** Restricts a handler's `ctx` to its own connection, since the handler may keep it and use it from anywhere. */
  #guardContext(context: unknown, lease: Lease): void {
    if (!isObject(context)) return;
    const methods = (isObject(context['mcpReq']) ? context['mcpReq'] : context) as Record<string, unknown>;
    for (const name of SENDING) {
      const method = methods[name];
      if (typeof method !== 'function') continue;
      methods[name] = (...given: unknown[]) => {
        if (lease.isOver) return Promise.reject(overError());
        const before = this.#sending;
        this.#sending = lease;
        try {
          return method.apply(methods, given);
        } finally {
          this.#sending = before;
        }
      };
    }
  }

  /** Calls `late` in place of a method if code of an earlier connection calls it while the server serves another one. */
  #guardMethods(
    target: object,
    names: readonly string[],
    late: (lease: Lease, name: string) => unknown,
  ): void {
    const methods = target as Record<string, unknown>;
    for (const name of names) {
      const method = methods[name];
      if (typeof method !== 'function') continue;
      const isLate = (from: Lease | undefined): from is Lease => from?.of === this && from !== this.#lease;
      methods[name] = function (this: unknown, ...given: unknown[]) {
        const from = presentLease();
        return isLate(from) ? late(from, name) : method.apply(this, given);
      };
    }
  }
}

/** Returns the lease of the request whose handler is running, at any depth of calls. */
function presentLease(): Lease | undefined {
  return (runningExchange()?.link.transport as Leased | undefined)?.[LEASE];
}

function overError(): ValiseError {
  return new ValiseError('not-connected', 'The connection of this request is closed.', {
    next: 'Finish what a handler does with its server or context before it returns.',
  });
}

function lentError(): ValiseError {
  return new ValiseError('already-connected', 'This server has been connected before.', {
    next: 'Call the factory once for each connection.',
  });
}
