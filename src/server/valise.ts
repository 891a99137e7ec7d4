import type { Readable } from 'node:stream';
import { ValiseError } from '../core/errors.ts';
import type { Listener } from '../core/events.ts';
import type { TransportLike } from '../core/instrument.ts';
import { checkOptions } from '../core/options.ts';
import { MAX_MESSAGE } from '../edge/limit.ts';
import { limitedLines } from '../edge/stdio.ts';
import { createSealer, type Keyring, loadKeys } from '../seal/index.ts';
import type { Store } from '../store/types.ts';
import { AttachedServer, type Attachment } from './attach.ts';
import { carrierStack } from './carriers/state-carrier.ts';
import type { ServerContext } from './context.ts';
import { type ServerEvents, serverEvents, warnOnceOn } from './events.ts';
import { faultOn, noteErrors } from './fault.ts';
import { type FlowsApi, flowsApi } from './flows/flow.ts';
import { createFlows } from './flows/flows.ts';
import { createHttp, type Http } from './http/edge.ts';
import { createIdempotency, type IdempotencyApi } from './idempotency/idempotency.ts';
import { loadShedding } from './in-flight.ts';
import { createJar } from './jar/jar.ts';
import type { JarDeclarations } from './jar/keys.ts';
import type { ObjectSchema } from './jar/schema.ts';
import type { ServerJar, TypedServerJar } from './jar/types.ts';
import { lazyStore } from './lazy-store.ts';
import { createOperator, type OperatorApi } from './operator/console.ts';
import { ownKeys, type SealWatch } from './own-keys.ts';
import { checkedPrincipal, principalOf } from './principal.ts';
import { requestStore, type StoreWatch } from './request-store.ts';
import { type BuildServer, createFactory, type FactoryOptions } from './reuse/factory.ts';
import { claimServer, type ServerLike } from './sdk-server.ts';
import { SAFE_STATE } from './sessions/options.ts';
import type { TypedSession } from './sessions/session.ts';
import { createSessions, noSessions, type SessionsApi } from './sessions/sessions.ts';
import { storeSystem } from './telemetry.ts';
import { SERVER_OPTIONS, type ServerValiseOptions } from './valise-options.ts';

/**
 * The server side of Valise, independent of what the server has declared. Use it as a parameter type.
 *
 * @example
 * ```ts
 * export function addCoupons(server: McpServer, valise: ServerValise): void;
 * ```
 */
export interface ServerValise extends FlowsApi, SessionsApi, IdempotencyApi, OperatorApi {
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
  checkOptions('createValise', options, SERVER_OPTIONS);
  noteErrors();
  const events = serverEvents(options.events);
  const opened =
    typeof options.store === 'string'
      ? lazyStore(options.store, { durability: options.durability })
      : undefined;
  const given = opened ?? (options.store as Store | undefined);
  const system = storeSystem(options.store);
  const measured = given && system ? (options.telemetry?.store(given, system) ?? given) : given;
  const storeWatch: StoreWatch = {};
  const store = measured && requestStore(measured, storeWatch);
  const seals: SealWatch = {};
  const context: ServerContext = {
    name: options.name,
    sealer: ownKeys(
      createSealer({
        keys: readKeys(options.keys),
        audience: options.name,
        spill: store && {
          store: options.spillStore ?? store,
          above: options.sessions?.spillAbove ?? SAFE_STATE,
        },
      }),
      options.retiredKeys,
      seals,
    ),
    store,
    events,
    warnOnce: warnOnceOn(events),
  };
  if (context.sealer.ephemeral && options.keys !== EPHEMERAL) warnOfEphemeralKey(context);
  const sessions =
    options.sessions &&
    createSessions(context, options.sessions, typeof options.store === 'string' ? options.store : undefined);
  const jar = createJar(context, options.jar);
  const flows = createFlows(context, options.flows);
  const idempotency = createIdempotency(context, options.idempotency);
  const observed = options.telemetry?.server({
    events,
    store: system,
    counts: () => flows.counters.read(),
    waiting: () => flows.held.count,
    before: (exchange) => {
      const { f: flow, n: round, x: traceparent } = flows.inputOf(exchange)?.continuation ?? {};
      return flow === undefined || round === undefined ? undefined : { flow, round, traceparent };
    },
  });
  const operator = createOperator({
    context,
    seals,
    store: storeWatch,
    recordEvents: options.recordEvents === true,
    flows: () => flows.counters.read(),
    sessions: () => sessions?.usage,
    revoke: async (id) => (await sessions?.api.sessions.revoke(id)) === true,
  });
  const carriers = carrierStack(context, {
    withSessions: sessions !== undefined,
    namesUsers: options.principal !== undefined,
    conversation: options.conversation,
    handles: options.handles,
    limits: jar.limits,
    flows,
    needsSession: (exchange, tool) => sessions?.isRequired(exchange, tool) === true,
  });
  const shared: Attachment = {
    owner: context,
    // The middlewares that a request passes through, outermost first.
    stack: [
      ...(observed ? [observed.middleware] : []), // measures the request
      ...(options.maxInFlight === undefined ? [] : [loadShedding(options.maxInFlight, events)]), // refuses excess requests
      ...(store ? [idempotency.middleware] : []), // gives a repeated call the result of the first
      ...carriers.middlewares, // decide what carries the state of the request to the next call
      flows.middleware, // reads the answers that the call brings; sends what a flow asks in place of its response
      ...(sessions ? [sessions.middleware.authenticate] : []), // authenticates the session; runs the rest again on a conflict
      jar.middleware, // loads the jar of a client that carries none; stores what was set
      ...(sessions ? [sessions.middleware.commit] : []), // writes the session; a conflict stops everything outside of it
    ],
    answers: (exchange) => sessions?.middleware.answers(exchange) === true,
    families: (introduction) => ({
      state: true,
      ...(sessions && { sessions: true, revocation: sessions.revocation }),
      ...flows.families(introduction),
      ...(idempotency.isAnnounced(introduction) && { idempotency: true }),
    }),
    notifying: (notification, exchange, link) =>
      sessions ? sessions.middleware.notifying(notification, exchange, link) : notification,
    outgoing: observed ? [observed.outgoing] : [],
    answered: flows.answered,
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
        carriers.connecting?.(server, transport);
        new AttachedServer(server, transport, shared);
      } catch (error) {
        return Promise.reject(error);
      }
      return connect.call(server, transport);
    };
    return server;
  };
  return {
    ...flowsApi(flows),
    ...operator.api,
    ...idempotency.api,
    http: createHttp(
      flows,
      shared,
      async (id, principal) => sessions?.endDefault(id, principal),
      options.maxMessageBytes,
    ),
    stdin: (from = process.stdin) =>
      limitedLines(from, {
        maxBytes: options.maxMessageBytes ?? MAX_MESSAGE,
        exceeded: (_, maxBytes) => events.emit('message-too-large', { what: 'line', maxBytes }),
      }),
    ...((sessions?.api ?? noSessions()) as SessionsApi & {
      session(): TypedSession<SessionSchema> | undefined;
    }),
    install,
    factory: (build, options = {}) => createFactory(build, options, install, context.warnOnce),
    jar: jar.api as TypedServerJar<Declared>,
    on: (event, listener) => events.on(event, listener),
    async close() {
      closed = true;
      observed?.close();
      await operator.close();
      await sessions?.close();
      await carriers.close();
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
    next: 'Close it last, when no server is connected, or make another one with createValise().',
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
