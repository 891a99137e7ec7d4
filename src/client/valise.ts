import type { ValiseError } from '../core/errors.ts';
import type { Listener } from '../core/events.ts';
import type { TransportLike } from '../core/instrument.ts';
import type { MessageLimit } from '../edge/limit.ts';
import { StdioClientTransport, type StdioCommand } from '../edge/stdio-client.ts';
import type { ServerRequestMiddleware } from './call.ts';
import { authorizationFor, connectHttp, connectTransport, type Surroundings } from './connection/connect.ts';
import { type Connections, openConnections } from './connection/connections.ts';
import type { Continuity } from './connection/continuity.ts';
import { type HttpOptions, HttpTarget } from './connection/http.ts';
import type { ClientMiddleware, Connection } from './connection.ts';
import { type ClientPart, sendingAgain } from './connection.ts';
import { closedError } from './errors.ts';
import { type ClientEvents, clientEvents, messageLimit } from './events.ts';
import { Flows } from './flows/middleware.ts';
import { pendingQuestions } from './flows/pending.ts';
import { PendingStore } from './flows/pending-store.ts';
import type { Pending } from './flows/types.ts';
import { HostFetch } from './host/host-fetch.ts';
import { HostProvider } from './host/host-provider.ts';
import { type HostTransport, ValiseTransport } from './host/host-transport.ts';
import type { IdentityOptions } from './identity/identity.ts';
import { type NamedServer, type Target, targetKey, targetNamed, targetOf } from './identity/target.ts';
import { ClientJar } from './jar/jar.ts';
import { endTransport, followTarget, jarPart } from './jar/middleware.ts';
import type { Jar } from './jar/types.ts';
import { installedMajor } from './major.ts';
import type { Authorization } from './oauth/authorization.ts';
import { Secrets } from './oauth/secrets.ts';
import {
  type AuthProviderOptions,
  type ClientLike,
  type ClientValiseOptions,
  type ConnectOptions,
  checkClient,
  checkClientOptions,
  checkCommand,
  checkConnectOptions,
  checkTransportOptions,
  checkUrlOptions,
  type HostOptions,
  isNamed,
  isUrl,
  type TransportOptions,
} from './options.ts';
import { ownStore } from './own-store.ts';
import { type RecordedEvents, recordEvents, recordedEvents } from './recorded-events.ts';
import { repeating } from './repeat.ts';
import { createSessions } from './sessions/middleware.ts';
import { SessionRecords } from './sessions/session.ts';
import type { ClientSession, ClientSessions, SessionsAccess } from './sessions/types.ts';

/** The client side of Valise, as {@link openValise} returns it. */
export interface ClientValise extends RecordedEvents {
  /** The state that servers have set and this client carries. */
  readonly jar: Jar;
  /** Data-layer sessions, both with a connected client's server and stored. */
  readonly sessions: SessionsAccess;
  /** Calls that wait for a user's answer, including those from before a restart. */
  readonly pending: Pending;
  /** Stored state of HTTP connections: sessions, metadata, credentials. */
  readonly connections: Connections;
  /** Adds a listener for an event. Returns a function that removes it. Valise itself logs nothing. */
  on<Name extends keyof ClientEvents>(event: Name, listener: Listener<ClientEvents[Name]>): () => void;
  /**
   * Connects a client of either SDK major version to a server, with all the state that Valise keeps for that server.
   *
   * A URL resumes the session of an earlier process, if there is one, with that process's sign-in. A command is started as
   * a stdio server. A transport of your own works too, but then its server may have to be named with the option `server`.
   *
   * @example
   * ```ts
   * await valise.connect(client, 'https://example.com/mcp', { auth: { redirect: openBrowser } });
   * await valise.connect(client, { command: 'node', args: ['server.js'] });
   * ```
   */
  connect(client: ClientLike, to: NamedServer | TransportLike, options?: ConnectOptions): Promise<void>;
  /**
   * Returns a transport for a host that creates its own client, such as the AI SDK. It adds state, resumption, sign-in and
   * sessions, as {@link connect} does. One transport serves one client. `to` is a URL, a command, or a transport that this
   * one uses.
   *
   * @example
   * ```ts
   * const client = await createMCPClient({ transport: valise.transport('https://example.com/mcp') });
   * ```
   */
  transport(to: NamedServer | TransportLike, options?: TransportOptions): HostTransport;
  /**
   * Returns an `OAuthClientProvider` for either SDK major version. The store keeps the tokens, and one process at a time
   * refreshes them. Use it for hosts that accept nothing else; {@link transport} and {@link options} sign in by themselves.
   *
   * @example
   * ```ts
   * const transport = new StreamableHTTPClientTransport(url, {
   *   authProvider: valise.authProvider(url, { redirect: openBrowser }),
   * });
   * ```
   */
  authProvider(url: string | URL, options: AuthProviderOptions): HostProvider;
  /**
   * Returns options for hosts that create their own Streamable HTTP transport, such as OpenAI Agents and Mastra. The
   * `fetch` among them does what {@link transport} does. Call this once for each client.
   *
   * @example
   * ```ts
   * const server = new MCPServerStreamableHttp({ url, ...valise.options(url) });
   * ```
   */
  options(url: string | URL, options?: TransportOptions): HostOptions;
  /** Stores pending changes and releases the store. Close the clients first; later calls are rejected. */
  close(): Promise<void>;
}

/**
 * Opens the client side of Valise.
 *
 * @example
 * ```ts
 * const valise = await openValise();
 * await valise.connect(client, 'https://example.com/mcp'); // a v1 or v2 client
 * valise.jar.list();
 * ```
 */
export async function openValise(options: ClientValiseOptions = {}): Promise<ClientValise> {
  checkClientOptions(options);
  const { principal = '', quotas, allowLocal, digest } = options;
  const owner = {};
  const events = clientEvents();
  const { store, keyFile, refuse, release } = await ownStore(options, events);
  const identity: IdentityOptions = { allowLocal, digest };
  const limitFor = (of: Target): MessageLimit => messageLimit(events, of, options.maxMessageBytes);
  let closed = false;
  const checkOpen = (): void => {
    if (closed) throw closedError();
  };
  try {
    const jar = new ClientJar({ store, principal, events, quotas });
    await jar.refresh();
    const secrets = new Secrets(store, options, keyFile);
    const waiting = new Set<Authorization>();
    const state = jarPart(jar, identity);
    const newer = ({ what, next = '' }: ValiseError): void =>
      events.emit('warning', { code: 'store-newer', what, next });
    const sessions = createSessions({
      records: new SessionRecords(store, principal, newer),
      events,
      jar: state,
    });
    const pendingStore = new PendingStore(store, principal, sessions.returning, events);
    const flows = new Flows(pendingStore, options.carriers);
    const observed = options.telemetry?.client({ events, pending: () => pendingStore.count() });
    const measuring = observed ? [observed.part] : [];
    const parts: ClientPart[] = [flows, sessions.part, state, ...measuring];
    // The order in which a call passes the middleware, outermost first.
    const stack = (continuity?: Continuity, auth?: Authorization): ClientMiddleware[] => [
      flows.middleware, // answers the server's input requests and retries the call
      sessions.turns, // runs the calls of a serial session one at a time
      repeating, // repeats a call whose answer was lost, if the server runs it only once
      ...(continuity ? [sendingAgain(continuity), continuity.middleware] : []), // starts a new session if the old one is lost
      ...(auth ? [sendingAgain(auth)] : []), // waits for the user to sign in
      sessions.middleware, // names the session of the call; creates another if that one is gone
      state.middleware, // sends the jar's entries and stores what the server sets
      ...(observed ? [observed.middleware] : []), // measures each request that is sent
    ];
    // The same for requests from the server.
    const incoming = (continuity?: Continuity): ServerRequestMiddleware[] => [
      ...(observed ? [observed.incoming] : []), // measures the request
      flows.incoming, // stores a question that came with a state, and returns the state with its answer
      ...(continuity ? [continuity.incoming] : []), // notes the session in which the client answered
    ];
    const surroundings: Omit<Surroundings, 'limit'> = {
      owner,
      principal,
      parts,
      stack,
      incoming,
      store,
      secrets,
      events,
      jar: state,
      waiting,
      keepsSession: false,
    };
    const { announce: _, ...unannounced } = sessions.part;
    const withoutSessions: ClientPart[] = [flows, unannounced, state, ...measuring];
    const doors = new Set<HostFetch>();
    const stopRecording = options.recordEvents ? recordEvents(store, principal, events) : undefined;
    const attach = async (
      client: ClientLike,
      to: TransportLike | HttpTarget,
      settings: Pick<ConnectOptions, 'jarLifetime' | 'sessions' | 'server'>,
    ): Promise<Connection> => {
      checkOpen();
      const own = { owner, principal, parts: settings.sessions === false ? withoutSessions : parts };
      const target = to instanceof HttpTarget ? targetNamed(to.url) : targetOf(to, settings.server);
      const limit = limitFor(target);
      const keepsSession = settings.jarLifetime === 'kept';
      const connection =
        to instanceof HttpTarget
          ? await connectHttp(client, to, { ...surroundings, ...own, limit, keepsSession })
          : await connectTransport(
              client,
              to,
              { ...own, stack: stack(), incoming: incoming(), target },
              { store, limit },
            );
      if (keepsSession && !(to instanceof HttpTarget)) await followTarget(state, connection);
      connection.speakFor(client);
      sessions.connected(client, connection);
      flows.connected(client, connection);
      return connection;
    };
    const stdio = (command: StdioCommand): TransportLike => {
      checkCommand(command);
      return new StdioClientTransport(command, limitFor(targetNamed(command)));
    };
    const targetFor = (
      name: string,
      to: NamedServer | TransportLike,
      http: HttpOptions,
    ): TransportLike | HttpTarget => {
      if (isUrl(to)) return new HttpTarget(to, http);
      checkUrlOptions(name, http);
      return isNamed(to) ? stdio(to) : to;
    };
    const pending = pendingQuestions(pendingStore, flows);
    const endSession = async (session: ClientSession): Promise<void> => {
      const waits = (await pending.list()).some((round) => round.session?.id === session.id);
      if (!session.isGone && !waits) await session.delete();
    };
    const hostTransport = (
      to: NamedServer | TransportLike,
      settings: TransportOptions = {},
    ): ValiseTransport => {
      checkTransportOptions(settings);
      const { jarLifetime, sessionName = 'default', ownSession, ...http } = settings;
      if (!isNamed(to) && typeof to?.start !== 'function') checkCommand(to as never);
      const target = targetFor('transport', to, http);
      const openSession = (access: ClientSessions): Promise<ClientSession> =>
        ownSession
          ? access.create({ label: sessionName || 'host', keep: false })
          : access.named(sessionName || 'default', { onGone: 'recreate' });
      return new ValiseTransport({
        http: isUrl(to),
        major: installedMajor(),
        openSession: sessionName === false ? undefined : openSession,
        endSession: ownSession ? endSession : undefined,
        open: (client) => attach(client, target, { jarLifetime, sessions: sessionName !== false }),
        sessions: (client) => sessions.access(client),
        warn: (code, what, next) => events.emit('warning', { code, what, next }),
      });
    };
    const provider = (url: string | URL, { fetch, ...auth }: AuthProviderOptions): HostProvider => {
      const target = new HttpTarget(url, { auth, fetch });
      const limit = limitFor(targetNamed(target.url));
      const major = installedMajor();
      const authorization = authorizationFor(major, target, { ...surroundings, limit });
      return new HostProvider(authorization, major);
    };
    return {
      jar,
      sessions: Object.assign((client: object) => {
        checkOpen();
        return sessions.access(client);
      }, sessions.access),
      pending,
      connections: openConnections({
        store,
        principal,
        limit: limitFor({ kind: 'unknown' }),
        secrets: () => secrets.everywhere(),
        warn: (what, next) => events.emit('warning', { code: 'sign-in-key-missing', what, next }),
        async ended(url, sessionId, accounts) {
          const key = targetKey({ kind: 'http', url });
          const kept = await sessions.forget(key);
          const asked = await pendingStore.forget(key);
          const isEnded = await endTransport(jar, url, { sessionId, sessions: kept, accounts }, identity);
          return isEnded || kept.length + asked > 0;
        },
      }),
      recordedEvents: () => recordedEvents(store, principal),
      on: (event, listener) => events.on(event, listener),
      async connect(client, to, settings = {}) {
        checkOpen();
        checkClient(client);
        checkConnectOptions(to, settings);
        const { jarLifetime, sessions, server, ...http } = settings;
        const target = targetFor('connect', to, http);
        await attach(client, target, { jarLifetime, sessions, server });
      },
      transport: hostTransport,
      authProvider: provider,
      options(url, settings) {
        // Reports a misspelled option now rather than on the first request.
        hostTransport(url, settings);
        const open = () => hostTransport(url, settings);
        const door = new HostFetch(open, settings?.fetch ?? fetch, settings?.resume !== false);
        doors.add(door);
        const authProvider = settings?.auth && provider(url, { ...settings.auth, fetch: settings.fetch });
        return { fetch: door.fetch, authProvider, sessionId: undefined };
      },
      async close() {
        closed = true;
        observed?.close();
        // This attempt may store what an earlier one could not.
        refuse(false);
        try {
          await Promise.all([...doors].map((door) => door.close()));
          // Each releases what it holds in the store.
          await Promise.all([...waiting].map((one) => one.end()));
          await jar.close();
          await stopRecording?.();
        } finally {
          refuse(true);
          await release();
        }
      },
    };
  } catch (error) {
    await release();
    throw error;
  }
}
