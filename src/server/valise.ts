import type { Readable } from 'node:stream';
import { ValiseError } from '../errors.ts';
import type { Listener } from '../events.ts';
import { isObject } from '../json.ts';
import { limitedLines } from '../link/edge-stdio.ts';
import { MAX_MESSAGE } from '../link/limit.ts';
import type { TransportLike } from '../link/transport.ts';
import { ANYTHING, BYTES, checkOptions, FUNCTION, SETTINGS, type TakenBy } from '../options.ts';
import { createSealer, type Keyring, loadKeys } from '../seal/index.ts';
import { isStore } from '../store/is-store.ts';
import type { Store } from '../store/types.ts';
import { noteErrors } from './advice.ts';
import { type Attachment, attach } from './attach.ts';
import type { TellCaller } from './caller.ts';
import type { ServerContext } from './context.ts';
import { type ServerEvents, type ServerListeners, serverEvents, warnOnceOn } from './events.ts';
import { faultOn } from './fault.ts';
import { type FlowsApi, flowsApi } from './flows/public.ts';
import { createRounds } from './flows/rounds.ts';
import type { FlowsOptions } from './flows/settings.ts';
import { createHttp, type Http } from './http/edge.ts';
import { createIdempotency, type IdempotencyApi } from './idempotency/idempotency.ts';
import type { IdempotencyOptions } from './idempotency/options.ts';
import { loadShedding } from './in-flight.ts';
import { createJar, type JarOptions } from './jar/jar.ts';
import type { JarDeclarations } from './jar/key.ts';
import type { ObjectSchema } from './jar/schema.ts';
import type { ServerJar, TypedServerJar } from './jar/types.ts';
import { lazyStore } from './lazy-store.ts';
import { ownKeys } from './own-keys.ts';
import { type AuthInfo, checkedPrincipal, type Principal, principalOf } from './principal.ts';
import { requestStore } from './request-store.ts';
import { type BuildServer, createFactory, type FactoryOptions } from './reuse/factory.ts';
import { claimServer, type ServerLike } from './server-like.ts';
import { SAFE_STATE, type SessionsOptions } from './sessions/options.ts';
import { type SessionsApi, sessionsApi } from './sessions/public.ts';
import type { TypedSession } from './sessions/session.ts';
import { createSessions } from './sessions/sessions.ts';
import { type ServerTelemetry, storeSystem } from './telemetry.ts';

/** Options of {@link createValise}. */
export interface ServerValiseOptions<
  Declared extends JarDeclarations = JarDeclarations,
  SessionSchema extends ObjectSchema = ObjectSchema,
> {
  /** The name of this server. Seals made for one name open under no other. All instances of one server share it. */
  readonly name: string;
  /**
   * The keys that seal state: a keyring, or its text.
   *
   * If omitted, Valise reads `VALISE_KEYS`. If that is not set either, it generates a key that no other instance and no later
   * process has, and emits a `warning`. In production (`NODE_ENV=production`) a missing key is an error. Pass `ephemeral` to
   * ask for a generated key, for a server that runs as a single process, for example over stdio.
   */
  readonly keys?: Keyring | string | undefined;
  /**
   * The ids of keys that have been removed for good, for example after a leak (`valise keys list` shows ids).
   *
   * State that a retired key sealed is no longer valid. State sealed by any other key that is not among `keys` counts as a
   * mistake in this server's settings: the request fails with a retryable error, and the client keeps what it has.
   *
   * @defaultValue none
   */
  readonly retiredKeys?: readonly string[] | undefined;
  /** The store for clients that do not carry state: a store, or its URL. A store given by URL is opened on first use. */
  readonly store?: Store | string | undefined;
  /**
   * Whether a write must reach a replica before it counts as saved.
   *
   * With `'replicated'`, on Redis and PostgreSQL, changes to sessions and marks of effects (`flow.once`) count as saved only
   * when a replica has them too, so a failover does not lose them. This applies to a `store` given by its URL; a store that you
   * open yourself takes the same option.
   *
   * @defaultValue `'local'`
   */
  readonly durability?: 'local' | 'replicated' | undefined;
  /**
   * Returns the principal of a request, for servers whose `authInfo` does not name it as `extra.sub` (with `extra.iss` and
   * `clientId`).
   *
   * A principal needs a `subject`. Without one the caller counts as anonymous, and Valise emits a `warning`. The second
   * argument is what the transport passes along with the message. Over HTTP it has the headers, as `request.headers` (a
   * `Headers`; SDK v2, web standard) or `requestInfo.headers` (an object; SDK v1, Node). `valise.http` calls this function too,
   * before the SDK does and possibly with the other form, so check both. On stdio the argument is undefined.
   *
   * @example
   * ```ts
   * // Only where a proxy has verified who asks, and lets nobody else set this header.
   * principal: (_authInfo, extra) => {
   *   const { request, requestInfo } = (extra ?? {}) as {
   *     request?: Request;
   *     requestInfo?: { headers: Record<string, string | string[] | undefined> };
   *   };
   *   const subject = request?.headers.get('x-user') ?? requestInfo?.headers['x-user'];
   *   return typeof subject === 'string' ? { subject } : undefined;
   * },
   * ```
   */
  readonly principal?:
    | ((authInfo: AuthInfo | undefined, extra: unknown) => Principal | undefined)
    | undefined;
  /**
   * Tells anonymous callers apart, so that each has its own share of the limits.
   *
   * The default is the remote address if `valise.http` receives Node's requests, otherwise the connection or the transport's
   * session. Behind a proxy all clients have the proxy's address, so read the header in which the proxy names the client's. The
   * result never grants access to anything.
   *
   * @example
   * ```ts
   * // The proxy appends the address that it sees; what stands before it is the client's to invent.
   * caller: ({ header, address }) => header('x-forwarded-for')?.split(',').at(-1)?.trim() ?? address,
   * ```
   */
  readonly caller?: TellCaller | undefined;
  /** Listeners that are registered from the start. Use {@link ServerValise.on} to add others later. */
  readonly events?: ServerListeners | undefined;
  /** Declares the keys of this server's jar. Keys that are not declared are sealed and hold any JSON. */
  readonly jar?: (JarOptions & Declared) | undefined;
  /** Enables data-layer sessions. If omitted, the server has none. */
  readonly sessions?: SessionsOptions<SessionSchema> | undefined;
  /**
   * The largest message that the server accepts from a client, in bytes.
   *
   * It limits the body of an HTTP request that `valise.http` reads and each line that `valise.stdin` reads. The server does not
   * handle a larger message: it responds with an error (status 413 over HTTP) and emits `message-too-large`.
   *
   * @defaultValue 4194304 (4 MiB, as in both SDKs) over HTTP, 67108864 (64 MiB) on stdio
   */
  readonly maxMessageBytes?: number | undefined;
  /**
   * How many requests this process handles at a time.
   *
   * The server refuses any further request immediately with a retryable error and emits `overloaded`. Calls that wait for their
   * user on an open connection count. Listeners, which have limits of their own, do not count, nor do `initialize` and `ping`.
   *
   * @defaultValue no limit
   */
  readonly maxInFlight?: number | undefined;
  /**
   * Reports spans and metrics to OpenTelemetry: the result of `telemetry()` from `mcp-valise/otel`.
   *
   * @defaultValue none, and nothing is loaded or measured
   */
  readonly telemetry?: ServerTelemetry | undefined;
  /** Options of calls that may be repeated: how long their results are kept, and how many. */
  readonly idempotency?: IdempotencyOptions | undefined;
  /** Options of flows: where their context is stored, and how it is encoded and limited. */
  readonly flows?: FlowsOptions | undefined;
}

/**
 * The server side of Valise, independent of what the server has declared. Use it as a parameter type.
 *
 * @example
 * ```ts
 * export function addCoupons(server: McpServer, valise: ServerValise): void;
 * ```
 */
export interface ServerValise extends FlowsApi, SessionsApi, IdempotencyApi {
  /**
   * Installs Valise on a server; call it before the server connects.
   *
   * A server accepts only one Valise. One Valise serves any number of servers and connections.
   */
  install<S extends ServerLike>(server: S): S;
  /**
   * Wraps a function that builds a server for each request: installs Valise on every server, and reuses servers between
   * requests.
   *
   * Reuse saves most of a stateless server's CPU time. A server is reused if its connection has closed with nothing left
   * running and nothing about it has changed since it was built. Nothing of one request is visible to the next. The function
   * runs outside of the request's async context. If it takes the request's context, its servers are not reused by default.
   *
   * @example
   * ```ts
   * createServer(toNodeHandler(createMcpHandler(valise.factory(build))));      // v2
   * const make = valise.factory(build);                                        // v1, for each request:
   * await make().connect(transport);
   * ```
   */
  factory<Build extends BuildServer>(build: Build, options?: FactoryOptions): Build;
  /**
   * The jar of the client whose request is being handled, at any depth of calls.
   *
   * If the client carries state, it travels in `_meta`. Otherwise the same calls are served from the store. Reading a scope
   * outside of a request throws `outside-request`.
   *
   * @example
   * ```ts
   * valise.jar.session.set('Coupon Code', 'XYZZY');
   * ```
   */
  readonly jar: ServerJar;
  /**
   * Wraps an HTTP handler of either SDK major, web-standard or Node's, so that any instance can continue what another one
   * began.
   *
   * It identifies each client by its session id, and accepts answers to questions that other instances asked. If neither Valise
   * nor the SDK's transport created the session that a request names, the response is 404. Everything else passes through
   * unchanged.
   *
   * @example
   * ```ts
   * createServer(valise.http(toNodeHandler(createMcpHandler(build)))); // v2
   * createServer(valise.http(async (request, response, body) => {      // v1
   *   const transport = new StreamableHTTPServerTransport();
   *   await build().connect(transport);
   *   await transport.handleRequest(request, response, body);
   * }));
   * ```
   */
  readonly http: Http;
  /**
   * Returns standard input for a stdio transport of either SDK major, read through Valise first.
   *
   * Clients can then send back the state that a question carried, even to a process that was started after the question was
   * asked.
   *
   * @example
   * ```ts
   * await server.connect(new StdioServerTransport(valise.stdin()));
   * ```
   */
  stdin(from?: Readable): Readable;
  /** Adds a listener for an event. Returns a function that removes it. Valise itself logs nothing. */
  on<Name extends keyof ServerEvents>(event: Name, listener: Listener<ServerEvents[Name]>): () => void;
  /** Closes the store if Valise opened it. Close the servers first; afterwards no server can connect. */
  close(): Promise<void>;
}

/** The result of {@link createValise}: a {@link ServerValise} that knows the types of the declared keys. */
export interface TypedServerValise<
  Declared extends JarDeclarations,
  SessionSchema extends ObjectSchema = ObjectSchema,
> extends ServerValise {
  readonly jar: TypedServerJar<Declared>;
  session(): TypedSession<SessionSchema> | undefined;
}

/** Requests a key that lives as long as the process. */
const EPHEMERAL = 'ephemeral';

const TAKEN: TakenBy<ServerValiseOptions> = {
  name: ANYTHING,
  keys: ANYTHING,
  store: [
    'the URL of a store, such as sqlite:./state.db, or a store',
    (value) => typeof value === 'string' || isStore(value),
  ],
  durability: ["'local' or 'replicated'", (value) => value === 'local' || value === 'replicated'],
  principal: FUNCTION,
  caller: FUNCTION,
  events: ['an object with listeners', isObject],
  jar: SETTINGS,
  sessions: SETTINGS,
  maxMessageBytes: BYTES,
  maxInFlight: ['a whole number from 1', (value) => Number.isSafeInteger(value) && Number(value) > 0],
  retiredKeys: ['a list of ids of keys', (value) => Array.isArray(value)],
  flows: SETTINGS,
  idempotency: SETTINGS,
  telemetry: [
    'the result of telemetry()',
    (value) => isObject(value) && typeof value['server'] === 'function',
  ],
};

/**
 * Creates the server side of Valise.
 *
 * @example
 * ```ts
 * const valise = createValise({ name: 'shop', store: 'sqlite:./state.db' });
 * const server = valise.install(new McpServer({ name: 'shop', version: '1.0.0' }));
 * ```
 */
export function createValise<
  const Declared extends JarDeclarations = Record<never, never>,
  SessionSchema extends ObjectSchema = ObjectSchema,
>(options: ServerValiseOptions<Declared, SessionSchema>): TypedServerValise<Declared, SessionSchema> {
  if (typeof options?.name !== 'string' || options.name === '') throw noName();
  checkOptions('createValise', options, TAKEN);
  noteErrors();
  const events = serverEvents(options.events);
  const opened =
    typeof options.store === 'string'
      ? lazyStore(options.store, { durability: options.durability })
      : undefined;
  const given = opened ?? (options.store as Store | undefined);
  const system = storeSystem(options.store);
  const measured = given && system ? (options.telemetry?.store(given, system) ?? given) : given;
  const store = measured && requestStore(measured);
  const context: ServerContext = {
    name: options.name,
    sealer: ownKeys(
      createSealer({
        keys: readKeys(options.keys),
        audience: options.name,
        spill: store && { store, above: options.sessions?.spillAbove ?? SAFE_STATE },
      }),
      options.retiredKeys,
    ),
    store,
    events,
    warnOnce: warnOnceOn(events),
  };
  if (context.sealer.ephemeral && options.keys !== EPHEMERAL) warnOfEphemeralKey(context);
  const sessions =
    options.sessions &&
    createSessions(context, options.sessions, typeof options.store === 'string' ? options.store : undefined);
  const jar = createJar(context, options.jar, sessions !== undefined);
  const rounds = createRounds(context, options.flows);
  const idempotency = createIdempotency(context, options.idempotency);
  const observed = options.telemetry?.server({
    events,
    store: system,
    counts: () => rounds.counters.read(),
    waiting: () => rounds.held.count,
    before: (exchange) => {
      const { f: flow, n: round, x: traceparent } = rounds.inputOf(exchange)?.context ?? {};
      return flow === undefined || round === undefined ? undefined : { flow, round, traceparent };
    },
  });
  const shared: Attachment = {
    owner: context,
    // The middlewares that a request passes through, outermost first.
    stack: [
      ...(observed ? [observed.middleware] : []), // measures the request
      ...(options.maxInFlight === undefined ? [] : [loadShedding(options.maxInFlight, events)]), // refuses excess requests
      ...(store ? [idempotency.middleware] : []), // gives a repeated call the result of the first
      rounds.carry, // sends what a flow asks; settles the round that the call continues
      ...(sessions ? [sessions.requests.middleware] : []), // proves the session; runs the rest again on a conflict
      jar.middleware, // loads the jar of a client that carries none; stores what was set
      ...(sessions ? [sessions.commit] : []), // writes the session; a conflict stops everything outside of it
      rounds.resume, // opens the answers that the call brings, for the flow to continue from
    ],
    answers: (exchange) => sessions?.requests.answers(exchange) === true,
    families: (introduction) => ({
      state: true,
      ...(sessions && { sessions: true, revocation: sessions.revocation }),
      ...rounds.families(introduction),
      ...(idempotency.isAnnounced(introduction) && { idempotency: true }),
    }),
    notifying: (notification, exchange, link) =>
      sessions ? sessions.requests.notifying(notification, exchange, link) : notification,
    asking: observed?.asking,
    answered: rounds.answered,
    principalOf: options.principal
      ? checkedPrincipal(options.principal, context.warnOnce)
      : principalOf(context.warnOnce),
    tellCaller: options.caller,
    fault: faultOn(events),
  };
  let closed = false;
  const checkOpen = (): void => {
    if (closed) throw closedError();
  };
  const install = <S extends ServerLike>(server: S): S => {
    checkOpen();
    claimServer(server);
    const { connect } = server;
    server.connect = (transport: TransportLike) => {
      try {
        checkOpen();
        attach(server, transport, shared);
      } catch (error) {
        return Promise.reject(error);
      }
      return connect.call(server, transport);
    };
    return server;
  };
  return {
    ...flowsApi(rounds),
    ...idempotency.api,
    http: createHttp(
      rounds,
      shared,
      async (id, principal) => sessions?.endStandIn(id, principal),
      options.maxMessageBytes,
    ),
    stdin: (from = process.stdin) =>
      limitedLines(from, {
        maxBytes: options.maxMessageBytes ?? MAX_MESSAGE,
        exceeded: (_, maxBytes) => events.emit('message-too-large', { what: 'line', maxBytes }),
      }),
    ...(sessionsApi(sessions) as SessionsApi & { session(): TypedSession<SessionSchema> | undefined }),
    install,
    factory: (build, options = {}) => createFactory(build, options, install, context.warnOnce),
    jar: jar.api as TypedServerJar<Declared>,
    on: (event, listener) => events.on(event, listener),
    async close() {
      closed = true;
      observed?.close();
      await sessions?.close();
      await opened?.close();
    },
  };
}

function noName(): ValiseError {
  return new ValiseError('invalid-argument', 'createValise was called without a name for the server.', {
    next: "Give it one that is the same on every instance and on no other server, as in createValise({ name: 'shop' }): what it seals opens under this name only.",
  });
}

function closedError(): ValiseError {
  return new ValiseError('closed', 'This Valise has been closed.', {
    next: 'Close it last, when no server is connected any more, or make another one with createValise().',
  });
}

/**
 * Returns the given keys. Throws if there are none in production.
 *
 * A key of one process would reset the state of other instances.
 */
function readKeys(keys: Keyring | string | undefined): Keyring | string {
  if (keys === EPHEMERAL) return loadKeys({ env: {} });
  const given = keys ?? loadKeys();
  const { NODE_ENV, NEXT_PHASE } = process.env;
  // `next build` loads every route as in production but serves nothing. Keys are needed only where the server runs.
  const isServing = NODE_ENV === 'production' && NEXT_PHASE !== 'phase-production-build';
  if (keys === undefined && (given as Keyring).ephemeral && isServing)
    throw new ValiseError('no-keys', 'There are no keys, and this is production (NODE_ENV).', {
      next: "Set VALISE_KEYS to the same key on every instance (`npx valise keys generate` makes one), or give createValise keys: 'ephemeral' if there is one process and its state may end with it.",
    });
  return given;
}

/** Defers the warning, so that listeners added right after `createValise` receive it too. */
function warnOfEphemeralKey({ warnOnce }: ServerContext): void {
  queueMicrotask(() =>
    warnOnce('ephemeral-key', {
      what: 'There are no keys, so one was made up: what it seals opens neither after a restart nor on another instance.',
      next: 'Set VALISE_KEYS, or give createValise the option keys.',
    }),
  );
}
