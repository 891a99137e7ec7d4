import type { Readable } from 'node:stream';
import { ValiseError } from '../errors.ts';
import type { Events } from '../events.ts';
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
import { type RoundsApi, roundsApi } from './flow/public.ts';
import { createRounds } from './flow/rounds.ts';
import type { RoundsOptions } from './flow/settings.ts';
import { createHttp, type Http } from './http/edge.ts';
import { loadShedding } from './in-flight.ts';
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
import type { Given, Held, KeySettings, StateDeclarations, StateKey } from './state/key.ts';
import type { ObjectSchema } from './state/schema.ts';
import { createState, type StateOptions } from './state/state.ts';
import type { RequestState, TypedState } from './state/types.ts';

/** Settings of {@link createValise}. */
export interface ServerValiseOptions<
  Declared extends StateDeclarations = StateDeclarations,
  SessionSchema extends ObjectSchema = ObjectSchema,
> {
  /** The name of this server: seals made for it open nowhere else. All instances of one server share it. */
  readonly name: string;
  /**
   * The keys of its seals: a keyring, or its text. Without it `VALISE_KEYS` is read; without that a key is made up,
   * which no other instance and no later process has, and a `warning` says so. In production (`NODE_ENV=production`) that
   * is an error. `ephemeral` asks for such a key: for a server of one process, over stdio for example.
   */
  readonly keys?: Keyring | string | undefined;
  /**
   * The ids of keys that are gone for good (`valise keys list` shows ids): after a leak, say. What they sealed counts as over.
   * What any other key sealed that is not among `keys` is taken for a mistake in this server's settings: requests
   * fail with an error that may be tried again, and their clients keep what they have.
   *
   * @defaultValue none
   */
  readonly retiredKeys?: readonly string[] | undefined;
  /** Where the state of clients that carry none is kept: a store, or its URL, which is opened when it is first needed. */
  readonly store?: Store | string | undefined;
  /**
   * `'replicated'`: on Redis and PostgreSQL, changes of sessions and marks of effects (`flow.once`) count as saved only when a
   * replica has them too, so that a failover does not lose them. For a `store` that is given by its URL; one that you
   * open yourself takes the same option.
   *
   * @defaultValue `'local'`
   */
  readonly durability?: 'local' | 'replicated' | undefined;
  /**
   * Who asks, where the SDKs' `authInfo` does not say it as `extra.sub` (with `extra.iss` and `clientId`). A principal needs
   * a `subject`: without one the caller is nobody, and a `warning` says so. The second argument is
   * what comes with the message from its transport: over HTTP the headers, as `request.headers` (a `Headers`; SDK v2, web
   * standard) or `requestInfo.headers` (an object; SDK v1, Node). `valise.http` asks too, before the SDK does and perhaps in
   * the other form, so look for both. On stdio it is undefined.
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
   * Tells one caller from another where no principal does, so that each has its own share of the limits. By default it is the remote
   * address, where `valise.http` is given Node's requests, else the connection or the transport's session. Behind a proxy all
   * clients have the proxy's address: read the header in which it names the client's. It never gives access to anything.
   *
   * @example
   * ```ts
   * // The proxy appends the address that it sees; what stands before it is the client's to invent.
   * caller: ({ header, address }) => header('x-forwarded-for')?.split(',').at(-1)?.trim() ?? address,
   * ```
   */
  readonly caller?: TellCaller | undefined;
  /** Listeners that hear from the start; {@link ServerValise.events} takes others. */
  readonly events?: ServerListeners | undefined;
  /** What is known about the keys of this server's state. Keys that are not named here are sealed and hold any JSON. */
  readonly state?: (StateOptions & Declared) | undefined;
  /** Gives the server data-layer sessions; without it there are none. */
  readonly sessions?: SessionsOptions<SessionSchema> | undefined;
  /**
   * The largest message that is accepted from a client: the body of an HTTP request that `valise.http` reads, or a line that
   * `valise.stdin` reads. A larger one is answered with an error (over HTTP with status 413) and not handled, and an event
   * `message-too-large` tells.
   *
   * @defaultValue 4194304 (4 MiB, as in both SDKs) over HTTP, 67108864 (64 MiB) on stdio
   */
  readonly maxMessageBytes?: number | undefined;
  /**
   * How many requests this process works on at a time; one more is refused at once with an error that says that it may be
   * sent again, and an event `overloaded` tells. Calls that wait for their user on an open connection count; listeners, which
   * have limits of their own, do not, nor do `initialize` and `ping`.
   *
   * @defaultValue no limit
   */
  readonly maxInFlight?: number | undefined;
  /** How rounds are kept and carried. */
  readonly rounds?: RoundsOptions | undefined;
}

/**
 * The server's side of Valise, whatever the server has declared: for functions that are handed one.
 *
 * @example
 * ```ts
 * export function addCoupons(server: McpServer, valise: ServerValise): void;
 * ```
 */
export interface ServerValise extends RoundsApi, SessionsApi {
  /** Installs Valise on a server, before it connects; no server takes two. The same Valise serves any number of servers and connections. */
  install<S extends ServerLike>(server: S): S;
  /**
   * Wraps a function that builds a server for each request: installs Valise on every server, and reuses servers between
   * requests, which saves most of a stateless server's CPU time. A server is reused if its connection has closed with nothing left running,
   * and nothing of it has changed since it was built. Nothing of one request is visible to the next. The function is called
   * outside of the request's async context. If it takes the request's context, its servers are not reused by default.
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
   * The state of the client whose request is being handled, at any depth of calls. Where the client carries state it
   * travels in `_meta`; where it does not, the same calls are served from the store.
   *
   * @example
   * ```ts
   * const { session } = valise.state();
   * session.set('Coupon Code', 'XYZZY');
   * ```
   */
  state(): RequestState;
  /**
   * Declares a key in the place where it is used, for both scopes; what it returns can stand for the name, with types. A name
   * that is declared again must have the same settings.
   *
   * @example
   * ```ts
   * const cart = valise.key('Cart Contents', { schema: z.object({ items: z.array(z.string()) }) });
   * valise.state().session.get(cart)?.items;
   * ```
   */
  key<const Settings extends KeySettings>(
    name: string,
    settings?: Settings,
  ): StateKey<Given<Settings>, Held<Settings>>;
  /**
   * Wraps an HTTP handler of either SDK major, web-standard or Node's, so that any instance can go on with what another
   * one began: it knows each client from its session id, and takes answers to questions that others asked. An id
   * of a session that neither it nor the SDK's transport has made is answered with 404. Everything else passes untouched.
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
   * Standard input for a stdio transport of either SDK major, with our byte edge on it: so that clients can bring back
   * what a question carried, also to a process that was started after it was asked.
   *
   * @example
   * ```ts
   * await server.connect(new StdioServerTransport(valise.stdin()));
   * ```
   */
  stdin(from?: Readable): Readable;
  /** What happens, as events; Valise logs nothing by itself. */
  readonly events: Pick<Events<ServerEvents>, 'on'>;
  /** Lets go of the store, where Valise has opened it. Close the servers first; from then on no other can be connected. */
  close(): Promise<void>;
}

/** What {@link createValise} makes: a {@link ServerValise} that knows the types of the keys that were declared. */
export interface TypedServerValise<
  Declared extends StateDeclarations,
  SessionSchema extends ObjectSchema = ObjectSchema,
> extends ServerValise {
  state(): TypedState<Declared>;
  session(): TypedSession<SessionSchema> | undefined;
}

/** Asks for a key that lives as long as the process. */
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
  state: SETTINGS,
  sessions: SETTINGS,
  maxMessageBytes: BYTES,
  maxInFlight: ['a whole number from 1', (value) => Number.isSafeInteger(value) && Number(value) > 0],
  retiredKeys: ['a list of ids of keys', (value) => Array.isArray(value)],
  rounds: SETTINGS,
};

/**
 * The server's side of Valise.
 *
 * @example
 * ```ts
 * const valise = createValise({ name: 'shop', store: 'sqlite:./state.db' });
 * const server = valise.install(new McpServer({ name: 'shop', version: '1.0.0' }));
 * ```
 */
export function createValise<
  const Declared extends StateDeclarations = Record<never, never>,
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
  const store = given && requestStore(given);
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
  const state = createState(context, options.state, sessions !== undefined);
  const rounds = createRounds(context, options.rounds);
  const shared: Attachment = {
    owner: context,
    // The way of a request, outermost first.
    stack: [
      ...(options.maxInFlight === undefined ? [] : [loadShedding(options.maxInFlight, events)]), // refuses what is too much
      rounds.carry, // sends what a flow asks; settles the round that the call goes on from
      ...(sessions ? [sessions.requests.middleware] : []), // proves the session; runs the rest again on a conflict
      state.middleware, // loads the jar of a client that carries none; keeps what was set
      ...(sessions ? [sessions.commit] : []), // writes the session; a conflict stops everything outside of it
      rounds.resume, // opens the answers that the call brings, for the flow to go on from
    ],
    answers: (exchange) => sessions?.requests.answers(exchange) === true,
    families: (introduction) => ({
      state: true,
      ...(sessions && { sessions: true, revocation: sessions.revocation }),
      ...rounds.families(introduction),
    }),
    notifying: (notification, exchange, link) =>
      sessions ? sessions.requests.notifying(notification, exchange, link) : notification,
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
    ...roundsApi(rounds),
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
    state: state.state as () => TypedState<Declared>,
    key(name, settings) {
      state.key(name, settings ?? {});
      return { name };
    },
    events,
    async close() {
      closed = true;
      await sessions?.close();
      await opened?.close();
    },
  };
}

function noName(): ValiseError {
  return new ValiseError('no-name', 'createValise was called without a name for the server.', {
    next: "Give it one that is the same on every instance and on no other server, as in createValise({ name: 'shop' }): what it seals opens under this name only.",
  });
}

function closedError(): ValiseError {
  return new ValiseError('valise-closed', 'This Valise has been closed.', {
    next: 'Close it last, when no server is connected any more, or make another one with createValise().',
  });
}

/** The keys that were given. Throws if there are none in production, where a key of one process resets the state of others. */
function readKeys(keys: Keyring | string | undefined): Keyring | string {
  if (keys === EPHEMERAL) return loadKeys({ env: {} });
  const given = keys ?? loadKeys();
  const { NODE_ENV, NEXT_PHASE } = process.env;
  // `next build` loads every route as in production, but serves nothing: keys are needed where it is started.
  const isServing = NODE_ENV === 'production' && NEXT_PHASE !== 'phase-production-build';
  if (keys === undefined && (given as Keyring).ephemeral && isServing)
    throw new ValiseError('no-keys', 'There are no keys, and this is production (NODE_ENV).', {
      next: "Set VALISE_KEYS to the same key on every instance (`npx valise keys generate` makes one), or give createValise keys: 'ephemeral' if there is one process and its state may end with it.",
    });
  return given;
}

/** A moment later, so that listeners which are added right after `createValise` hear it too. */
function warnOfEphemeralKey({ warnOnce }: ServerContext): void {
  queueMicrotask(() =>
    warnOnce('ephemeral-key', {
      what: 'There are no keys, so one was made up: what it seals opens neither after a restart nor on another instance.',
      next: 'Set VALISE_KEYS, or give createValise the option keys.',
    }),
  );
}
