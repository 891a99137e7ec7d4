import { messageOf, ValiseError } from '../../errors.ts';
import { edgeFetch } from '../../link/edge-fetch.ts';
import { documentFetch, type MessageLimit } from '../../link/limit.ts';
import { redactUrls } from '../../redact-urls.ts';
import { holdLease, withLease } from '../../store/kit/lease.ts';
import { secrecyOf } from '../../store/secrecy.ts';
import type { Store } from '../../store/types.ts';
import { Account, accountOfHeaders, TokenOwner } from '../account.ts';
import { type ClientMiddleware, Connection } from '../connection.ts';
import type { ClientEventSource } from '../events.ts';
import type { JarPart } from '../jar/middleware.ts';
import { erasOf, type Major, majorOf } from '../major.ts';
import { Authorization, type AuthorizationParts } from '../oauth/authorization.ts';
import { CredentialKeeper } from '../oauth/credentials.ts';
import { HostTokens } from '../oauth/host-tokens.ts';
import { type Secrets, whenNeeded } from '../oauth/secrets.ts';
import type { ClientPart } from '../part.ts';
import type { ServerRequestMiddleware } from '../server-request.ts';
import { targetKey } from '../target.ts';
import { Continuity } from './continuity.ts';
import { connectError } from './errors.ts';
import { composeFetch, type HttpMiddleware } from './fetch.ts';
import { holdKey, SessionHold } from './hold.ts';
import { addHeaders, type HttpTarget, type HttpTransport, makeHttpTransport } from './http.ts';
import { Keeping, type KeepingParts } from './keeping.ts';
import { type ConnectionId, keyOf } from './key.ts';
import { followTarget, followTransport, leaveTransport } from './session-state.ts';
import { isStale, type Snapshot, SnapshotKeeper } from './snapshot.ts';
import { type ClientStateStore, fromClientStateStore, isClientStateStore } from './state-store.ts';
import { sessionHttp, watchStandalone } from './stream.ts';
import { Unanswered } from './unanswered.ts';

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
  /** Whether session-scope state is kept even if the transport has no session. */
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
  const keeper = target.options.resume === false ? undefined : new SnapshotKeeper(store, id, account);
  const warn: KeepingParts['warn'] = (what, error, next) =>
    events.emit('warning', {
      code: 'connection-not-kept',
      what: redactUrls(`${what} (${redactUrls(id.target)}): ${messageOf(error)}`),
      next: next ?? 'Check the store and the server. The connection goes on.',
    });
  const access = { account, owner: new TokenOwner(surroundings.store, keyOf('account', id), principal) };
  const auth = authorize(client, target, { ...surroundings, own }, id, {
    ...access,
    signedIn: async () => keeper?.claim(),
  });
  const isHosts = !auth && secrecyOf(store) === 'host';
  const tokens = isHosts ? new HostTokens(new CredentialKeeper(store, id), account, access.owner) : undefined;
  await (auth ?? tokens)?.identify();
  const attempt = new Attempt(
    client,
    target,
    { ...surroundings, store },
    { id, keeper, auth, tokens, account, warn },
  );
  const latest = async (): Promise<Snapshot | undefined> => {
    const kept = await keeper?.latest(erasOf(client)).catch((error: unknown) => {
      warn('What is kept of the last connection could not be read', error);
      return undefined;
    });
    return kept && !isStale(kept) ? kept : undefined;
  };
  const goOn = async (from: Snapshot): Promise<Connection> => {
    try {
      const connection = await attempt.make(from);
      if (attempt.goesOn) events.emit('resumed', { target: redactUrls(id.target) });
      return connection;
    } catch (error) {
      if (!attempt.goesOn) throw error;
      // Nothing has been sent. The client rejects the snapshot, so it is useless.
      await keeper?.clear(from);
      warn('What is kept of the last connection does not fit', error);
      return attempt.make(undefined);
    }
  };
  // If several processes connect for the first time, one of them starts the session that is stored.
  const begin = async (): Promise<Connection> => {
    if (!keeper) return attempt.make(undefined);
    const key = `${keyOf('connection', id)}/first`;
    // A process does not wait long, nor for a store without leases.
    const lease = await holdLease(store, key, { ttl: TURN, wait: TURN }).catch(() => undefined);
    let kept: Snapshot | undefined;
    try {
      kept = await latest();
      if (!kept) return await attempt.make(undefined);
    } finally {
      await lease?.release();
    }
    return goOn(kept);
  };
  try {
    const kept = await latest();
    return await (kept ? goOn(kept) : begin()).catch(async (error: unknown) => {
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

/** Returns the target's own store. Adapts a given {@link ClientStateStore} only once. */
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
  const kept = secrets.within(own);
  return new Authorization({
    options: options.auth,
    keeper: new CredentialKeeper(whenNeeded(kept), id),
    place: () => kept.place(),
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

class Attempt {
  readonly #client: Connecting;
  readonly #target: HttpTarget;
  readonly #surroundings: Surroundings;
  readonly #id: ConnectionId;
  readonly #keeper: SnapshotKeeper | undefined;
  readonly #auth: Authorization | undefined;
  readonly #tokens: HostTokens | undefined;
  readonly #account: Account;
  readonly #warn: KeepingParts['warn'];
  #latest: Continuity | undefined;

  constructor(
    client: Connecting,
    target: HttpTarget,
    surroundings: Surroundings,
    own: {
      readonly id: ConnectionId;
      readonly keeper: SnapshotKeeper | undefined;
      readonly auth: Authorization | undefined;
      readonly tokens: HostTokens | undefined;
      readonly account: Account;
      readonly warn: KeepingParts['warn'];
    },
  ) {
    this.#client = client;
    this.#target = target;
    this.#surroundings = surroundings;
    this.#id = own.id;
    this.#keeper = own.keeper;
    this.#auth = own.auth;
    this.#tokens = own.tokens;
    this.#account = own.account;
    this.#warn = own.warn;
  }

  /** Whether the latest connection resumes the session of an earlier process. */
  get goesOn(): boolean {
    return this.#latest?.goesOn === true;
  }

  async make(kept: Snapshot | undefined): Promise<Connection> {
    const { owner, principal, parts, stack, incoming } = this.#surroundings;
    const continuity = this.#continuity(kept);
    this.#latest = continuity;
    const unanswered = new Unanswered();
    const transport = await this.#transport(continuity, unanswered);
    continuity.attach(transport);
    const connection = new Connection(transport, {
      owner,
      target: { kind: 'http', url: this.#target.url },
      principal,
      account: this.#account,
      parts: [continuity, unanswered, ...(this.#auth ? [this.#auth] : []), ...parts],
      stack: stack(continuity, this.#auth),
      incoming: incoming(continuity),
    });
    await connection.open();
    await this.#client.connect(transport, priorOf(this.#client, kept));
    this.#auth?.connected();
    if (kept?.era === 'modern') connection.server.introduce(kept.introduction, false);
    await continuity.settled();
    return connection;
  }

  #continuity(kept: Snapshot | undefined): Continuity {
    const { store, events, jar, keepsSession } = this.#surroundings;
    const target = redactUrls(this.#id.target);
    const key = keyOf('connection', this.#id);
    const warn = this.#warn;
    const keeper = this.#keeper;
    const isAlone = keeper && this.#target.options.resume === 'alone';
    const hold = isAlone ? new SessionHold(store, holdKey(key)) : undefined;
    if (kept?.sessionId !== undefined) hold?.look();
    return new Continuity({
      client: this.#client,
      keeping: new Keeping({ keeper, hold, warn }),
      kept,
      warn,
      alone: (work) => (keeper ? withLease(store, `${key}/renewal`, work) : work()),
      async begun(connection, sessionId) {
        if (sessionId !== undefined) await followTransport(jar, connection, sessionId);
        else if (keepsSession) await followTarget(jar, connection);
      },
      left: (connection, sessionId) => leaveTransport(jar, connection, sessionId),
      renewed: (reason) => events.emit('renewed', { target, reason }),
    });
  }

  #transport(continuity: Continuity, unanswered: Unanswered): Promise<HttpTransport> {
    const { options, url } = this.#target;
    const auth = this.#auth ?? this.#tokens;
    const edge = edgeFetch(
      options.fetch ?? fetch,
      (init) => unanswered.watch(init) ?? unanswered.watchStandalone(watchStandalone(init, continuity)),
      this.#surroundings.limit,
    );
    // The order in which a request passes the middleware, outermost first.
    const stack: HttpMiddleware[] = [
      ...(auth ? [auth.http] : []), // sends the token; refreshes it, or starts a sign-in, if the server rejects it
      unanswered.http, // ends calls whose response can no longer arrive
      sessionHttp(continuity), // sends the session id, and the position of the standalone stream
      ...(options.headers ? [addHeaders(url, options.headers)] : []), // adds the headers that the host has set
    ];
    return makeHttpTransport(majorOf(this.#client), url, {
      fetch: composeFetch(stack, edge),
      // Without it, `terminateSession` would not end a session that an earlier process started.
      sessionId: continuity.sessionId,
    });
  }
}

/** Returns the connect options that tell a v2 client about the server, so that it need not ask. */
function priorOf(client: object, kept: Snapshot | undefined): object | undefined {
  if (!kept || erasOf(client)[0] === 'legacy') return undefined;
  const prior = kept.era === 'modern' ? { kind: 'modern', discover: kept.introduction } : { kind: 'legacy' };
  return { prior };
}
