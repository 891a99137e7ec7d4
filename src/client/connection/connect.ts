import { messageOf, ValiseError } from '../../core/errors.ts';
import type { TransportLike } from '../../core/instrument.ts';
import { redactUrls } from '../../core/redact-urls.ts';
import { edgeFetch, type FetchLike } from '../../edge/fetch.ts';
import { documentFetch, type MessageLimit } from '../../edge/limit.ts';
import { secrecyOf } from '../../store/driver.ts';
import { holdLease, withLease } from '../../store/kit/lease.ts';
import type { Store } from '../../store/types.ts';
import { offeredCodecs } from '../../wire/codec.ts';
import type { Result } from '../../wire/index.ts';
import type { ServerRequestMiddleware } from '../call.ts';
import type { ClientPart } from '../connection.ts';
import { type ClientMiddleware, Connection, type ConnectionOptions } from '../connection.ts';
import type { ClientEventSource } from '../events.ts';
import { Account, accountOfHeaders, TokenOwner } from '../identity/account.ts';
import { type ConnectionId, keyOf, type Target, targetKey } from '../identity/target.ts';
import { followTarget, followTransport, type JarPart, leaveTransport } from '../jar/middleware.ts';
import { type Major, majorOf } from '../major.ts';
import { Authorization, type AuthorizationParts, HostTokens } from '../oauth/authorization.ts';
import { CredentialKeeper } from '../oauth/credentials.ts';
import { type Secrets, whenNeeded } from '../oauth/secrets.ts';
import { addStdioEdge } from '../stdio-edge.ts';
import { Continuity } from './continuity.ts';
import { connectError } from './errors.ts';
import {
  addHeaders,
  addHttpEdge,
  composeFetch,
  type HttpMiddleware,
  type HttpTarget,
  makeHttpTransport,
} from './http.ts';
import { isStale, type Snapshot, SnapshotKeeper, type SnapshotSettings } from './snapshot.ts';
import { type ClientStateStore, fromClientStateStore, isClientStateStore } from './state-store.ts';
import { Unanswered } from './streams.ts';

/** The dependencies of every HTTP connection. */
export interface Surroundings {
  readonly owner: object;
  readonly limit: MessageLimit;
  readonly principal: string;
  readonly store: Store;
  readonly secrets: Secrets;
  readonly events: ClientEventSource;
  readonly jar: JarPart;
  readonly parts: readonly ClientPart[];
  /** Returns the middleware that calls pass through. */
  readonly stack: (continuity: Continuity, auth: Authorization | undefined) => readonly ClientMiddleware[];
  /** Returns the middleware that requests from the server pass through. */
  readonly incoming: (continuity: Continuity) => readonly ServerRequestMiddleware[];
  /** Whether session-scope state is stored even if the transport has no session. */
  readonly keepsSession: boolean;
  /** The authorizations that wait for their user. */
  readonly waiting: Set<Authorization>;
}

interface Connecting {
  connect(transport: unknown, options?: unknown): Promise<void>;
}

/**
 * Connects a client to a server over HTTP. Resumes the session of an earlier process if there is one, or else starts a new one.
 */
export async function connectHttp(
  client: Connecting,
  target: HttpTarget,
  surroundings: Surroundings,
): Promise<Connection> {
  const { events, principal } = surroundings;
  const own = storeOfTarget(target.options);
  const store = own ?? surroundings.store;
  const id: ConnectionId = { target: targetKey({ kind: 'http', url: target.url }), principal };
  const account = new Account(accountOfHeaders(target.options.headers, principal));
  const name = redactUrls(id.target);
  const warn: NonNullable<SnapshotSettings['warn']> = (what, error, next) =>
    events.emit('warning', {
      code: 'connection-not-kept',
      what: redactUrls(`${what} (${name}): ${messageOf(error)}`),
      next: next ?? 'Check the store and the server. The connection works without it.',
    });
  const { resume = true } = target.options;
  const snapshots = resume
    ? new SnapshotKeeper(store, id, { account, isAlone: resume === 'alone', warn })
    : undefined;
  const access = { account, owner: new TokenOwner(surroundings.store, keyOf('account', id), principal) };
  const auth = authorize(client, target, { ...surroundings, own }, id, {
    ...access,
    signedIn: async () => snapshots?.claim(),
  });
  const isHosts = !auth && secrecyOf(store) === 'host';
  const tokens = isHosts ? new HostTokens(new CredentialKeeper(store, id), account, access.owner) : undefined;
  await (auth ?? tokens)?.identify();
  const attempt = new Attempt(client, target, { ...surroundings, store }, id, {
    snapshots,
    auth,
    tokens,
    account,
    warn,
  });
  const latest = async (): Promise<Snapshot | undefined> => {
    const stored = await snapshots?.latest(offeredCodecs(client)).catch((error: unknown) => {
      warn('The snapshot of the last connection could not be read', error);
      return undefined;
    });
    return stored && !isStale(stored) ? stored : undefined;
  };
  const resumeFrom = async (from: Snapshot): Promise<Connection> => {
    try {
      const connection = await attempt.make(from);
      if (attempt.isResumed) events.emit('resumed', { target: name });
      return connection;
    } catch (error) {
      if (!attempt.isResumed) throw error;
      // Nothing has been sent. The client rejects the snapshot, so it is useless.
      await snapshots?.clear(from);
      warn('The client rejected the snapshot of the last connection', error);
      return attempt.make(undefined);
    }
  };
  // If several processes connect for the first time, one of them starts the session that is stored.
  const begin = async (): Promise<Connection> => {
    if (!snapshots) return attempt.make(undefined);
    const key = `${keyOf('connection', id)}/first`;
    // A process does not wait long, nor for a store without leases.
    const lease = await holdLease(store, key, { ttl: TURN, wait: TURN }).catch(() => undefined);
    let from: Snapshot | undefined;
    try {
      from = await latest();
      if (!from) return await attempt.make(undefined);
    } finally {
      await lease?.release();
    }
    return resumeFrom(from);
  };
  try {
    const from = await latest();
    return await (from ? resumeFrom(from) : begin()).catch(async (error: unknown) => {
      if (!(await auth?.recover(error))) throw error;
      return begin();
    });
  } catch (error) {
    await auth?.end();
    throw connectError(error, target.url, auth !== undefined);
  }
}

/** How long a process waits for another one that connects for the first time, in seconds. */
const TURN = 5;

/** Returns the authorization for a host that makes its own connections to a server. */
export function authorizationFor(
  major: Major,
  target: HttpTarget,
  surroundings: Surroundings,
): Authorization {
  const { principal } = surroundings;
  const id: ConnectionId = { target: targetKey({ kind: 'http', url: target.url }), principal };
  const authorization = authorize(
    { opensOnly: true, ...(major === 'v2' && { getDiscoverResult: undefined }) },
    target,
    { ...surroundings, own: storeOfTarget(target.options) },
    id,
    {
      account: new Account(undefined),
      owner: new TokenOwner(surroundings.store, keyOf('account', id), principal),
      signedIn: async () => {},
    },
  );
  if (authorization) return authorization;
  throw new ValiseError('invalid-argument', 'The option redirect of authProvider is missing.', {
    next: 'Give a function that shows the sign-in page to the user.',
  });
}

const adapted = new WeakMap<ClientStateStore, Store>();

/** Returns the target's own store. Adapts a {@link ClientStateStore} only once. */
function storeOfTarget({ store }: HttpTarget['options']): Store | undefined {
  if (!store || !isClientStateStore(store)) return store;
  let ours = adapted.get(store);
  if (!ours) adapted.set(store, (ours = fromClientStateStore(store)));
  return ours;
}

function authorize(
  client: object,
  { url, options }: HttpTarget,
  { secrets, events, own, waiting, limit }: Surroundings & { readonly own: Store | undefined },
  id: ConnectionId,
  access: Pick<AuthorizationParts, 'account' | 'owner' | 'signedIn'>,
): Authorization | undefined {
  if (!options.auth) return undefined;
  const place = secrets.within(own);
  return new Authorization({
    options: options.auth,
    keeper: new CredentialKeeper(whenNeeded(place), id),
    place: () => place.place(),
    major: majorOf(client),
    introducesItself: !('opensOnly' in client),
    url,
    fetch: documentFetch(options.fetch ?? fetch, limit),
    events,
    target: redactUrls(id.target),
    waiting,
    ...access,
  });
}

/** The parts of a connection that outlive a failed attempt to connect. */
interface Lasting {
  readonly snapshots: SnapshotKeeper | undefined;
  readonly auth: Authorization | undefined;
  readonly tokens: HostTokens | undefined;
  readonly account: Account;
  warn(what: string, error: unknown): void;
}

class Attempt {
  readonly #client: Connecting;
  readonly #target: HttpTarget;
  readonly #surroundings: Surroundings;
  readonly #id: ConnectionId;
  readonly #lasting: Lasting;
  #latest: Continuity | undefined;

  constructor(
    client: Connecting,
    target: HttpTarget,
    surroundings: Surroundings,
    id: ConnectionId,
    lasting: Lasting,
  ) {
    this.#client = client;
    this.#target = target;
    this.#surroundings = surroundings;
    this.#id = id;
    this.#lasting = lasting;
  }

  /** Whether the latest connection resumes the session of an earlier process. */
  get isResumed(): boolean {
    return this.#latest?.state === 'resumed';
  }

  async make(from: Snapshot | undefined): Promise<Connection> {
    const { owner, principal, parts, stack, incoming } = this.#surroundings;
    const { auth, account } = this.#lasting;
    const { url } = this.#target;
    const continuity = this.#continuity(from);
    this.#latest = continuity;
    const unanswered = new Unanswered((init) => continuity.stream.watch(init, () => continuity.skipped()));
    const fetch = this.#fetch(continuity, unanswered);
    const transport = await makeHttpTransport(majorOf(this.#client), url, fetch);
    continuity.attach(transport);
    const connection = new Connection(transport, {
      owner,
      target: { kind: 'http', url },
      principal,
      account,
      parts: [continuity, unanswered, ...(auth ? [auth] : []), ...parts],
      stack: stack(continuity, auth),
      incoming: incoming(continuity),
    });
    await connection.open();
    await this.#client.connect(transport, priorOf(this.#client, from));
    auth?.connected();
    if (from?.codec.isStateless) connection.server.introduce(from.introduction, false);
    await continuity.settled();
    return connection;
  }

  #continuity(from: Snapshot | undefined): Continuity {
    const { store, events, jar, keepsSession } = this.#surroundings;
    const { snapshots, warn } = this.#lasting;
    const key = `${keyOf('connection', this.#id)}/renewal`;
    return new Continuity({
      client: this.#client,
      snapshots,
      from,
      warn,
      alone: (work) => (snapshots ? withLease(store, key, work) : work()),
      async begun(connection, sessionId) {
        if (sessionId !== undefined) await followTransport(jar, connection, sessionId);
        else if (keepsSession) await followTarget(jar, connection);
      },
      left: (connection, sessionId) => leaveTransport(jar, connection, sessionId),
      renewed: (reason) => events.emit('renewed', { target: redactUrls(this.#id.target), reason }),
    });
  }

  #fetch(continuity: Continuity, unanswered: Unanswered): FetchLike {
    const { options, url } = this.#target;
    const auth = this.#lasting.auth ?? this.#lasting.tokens;
    // The order in which a request passes the middleware, outermost first.
    const stack: HttpMiddleware[] = [
      ...(auth ? [auth.http] : []), // sends the token; refreshes it, or starts a sign-in, if the server rejects it
      unanswered.http, // ends calls whose response can no longer arrive
      continuity.http, // names the session; answers `initialize` from the snapshot
      ...(options.headers ? [addHeaders(url, options.headers)] : []), // adds the headers that the host has set
    ];
    return composeFetch(stack, edgeFetch(options.fetch ?? fetch, unanswered.watch, this.#surroundings.limit));
  }
}

/** Returns the connect options that tell a v2 client about the server, so that it need not ask. */
function priorOf(client: object, from: Snapshot | undefined): object | undefined {
  if (!from || !offeredCodecs(client)[0].isStateless) return undefined;
  return { prior: from.codec.prior(from.introduction) };
}

/** The part of an SDK client that connecting it needs. */
interface Connecting {
  connect(transport: unknown): Promise<void>;
  getServerCapabilities(): object | undefined;
}

/** Connects a client over a transport that already exists, such as one of the SDK's. */
export async function connectTransport(
  client: Connecting,
  transport: TransportLike,
  settings: Omit<ConnectionOptions, 'account'>,
  { store, limit }: { readonly store: Store; readonly limit: MessageLimit },
): Promise<Connection> {
  addStdioEdge(transport, limit);
  const account = await accountOf(transport, settings, store, limit);
  const connection = new Connection(transport, { ...settings, account });
  await connection.open();
  await client.connect(transport);
  // A v2 client may have sent `server/discover` on its own channel, and its getter omits part of the response.
  if (!connection.server.introduction)
    connection.server.introduce({ capabilities: client.getServerCapabilities() } as Result, false);
  return connection;
}

/** The credentials of a Streamable HTTP transport, under the names that both SDK majors use. */
interface Signing {
  readonly _requestInit?: RequestInit | undefined;
  readonly _authProvider?: {
    tokens?():
      | Promise<{ readonly access_token?: string } | undefined>
      | { readonly access_token?: string }
      | undefined;
    token?(): Promise<string | undefined> | string | undefined;
  };
}

/** Adds our byte edge to a transport that the application has created, and determines the account of its requests. */
async function accountOf(
  transport: TransportLike,
  { target, principal }: { readonly target: Target; readonly principal: string },
  store: Store,
  limit: MessageLimit,
): Promise<Account> {
  const { _requestInit: init, _authProvider: provider } = transport as Signing;
  const account = new Account(accountOfHeaders(init?.headers, principal));
  const owner = new TokenOwner(store, keyOf('account', { target: targetKey(target), principal }), principal);
  // A manually set bearer token is an account by itself, and not a sign-in.
  const isManual = new Headers(init?.headers).has('authorization');
  addHttpEdge(transport, limit, (token) => (isManual ? undefined : owner.uses(token, account)));
  const token = (await provider?.tokens?.())?.access_token ?? (await provider?.token?.());
  if (token !== undefined && !isManual) account.signIn(await owner.of(token));
  return account;
}
