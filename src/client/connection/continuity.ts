import { randomBytes } from 'node:crypto';
import type { Next } from '../../core/compose.ts';
import { UNSUPPORTED_VERSION } from '../../core/message.ts';
import { MAX_EVENT_ID } from '../../edge/sse.ts';
import {
  CORE,
  INTRODUCTIONS,
  isNotification,
  isRequest,
  type Notification,
  type Params,
  type Request,
  type Response as RpcResponse,
} from '../../wire/index.ts';
import { isSessionId } from '../../wire/session.ts';
import type { Call, ServerRequestMiddleware } from '../call.ts';
import type { ClientMiddleware, ClientPart, Connection } from '../connection.ts';
import { isOtherVersion, type LostReason, statusOf, versionGoneError, whyLost } from './errors.ts';
import type { HttpTransport } from './http.ts';
import { emptyResponse, type HttpExchange, type HttpMiddleware } from './http.ts';
import {
  discovered,
  initialized,
  introduceAnew,
  isAskedRight,
  isSame,
  isToldOf,
  type Snapshot,
  type SnapshotKeeper,
} from './snapshot.ts';
import { StandaloneStream } from './streams.ts';

/**
 * The states of a connection's session:
 *
 * - `fresh`: the client introduces itself to the server.
 * - `resumed`: the session of an earlier process. The server has not answered in it yet.
 * - `live`: the session is stored, and later processes can resume it.
 * - `lost`: the server no longer knows the session, and a new one is being started.
 * - `detached`: the session ends with the connection, because it could not be stored, or another one is.
 */
export type SessionState = 'fresh' | 'resumed' | 'live' | 'lost' | 'detached';

type SessionEvent = 'begin' | 'resume' | 'answered' | 'stored' | 'unstored' | 'lost' | 'failed' | 'ended';

/** The state after each event. An event that a state does not list leaves it unchanged. */
const TRANSITIONS: Readonly<Record<SessionState, Partial<Record<SessionEvent, SessionState>>>> = {
  fresh: { resume: 'resumed', stored: 'live', unstored: 'detached', lost: 'lost', ended: 'detached' },
  resumed: { begin: 'fresh', answered: 'live', stored: 'live', lost: 'lost', ended: 'detached' },
  live: { begin: 'fresh', resume: 'resumed', unstored: 'detached', lost: 'lost', ended: 'detached' },
  lost: { resume: 'resumed', stored: 'live', unstored: 'detached', failed: 'detached', ended: 'detached' },
  detached: { begin: 'fresh', resume: 'resumed', stored: 'live', lost: 'lost' },
};

/** The dependencies of {@link Continuity}. */
export interface ContinuityOptions {
  /** The SDK's client. */
  readonly client: object;
  /** Stores the connection's snapshot for later processes. Absent if nothing is to be stored. */
  readonly snapshots: SnapshotKeeper | undefined;
  /** The snapshot to resume from. */
  readonly from: Snapshot | undefined;
  /** Runs `work` while no other process does so for this connection. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  /** Called when a session has started or is resumed. Has the session's id if later processes can find it too. */
  begun(connection: Connection, sessionId: string | undefined): Promise<void>;
  /** Called when a session that later processes could find is over, or is replaced by a new one. */
  left(connection: Connection, sessionId: string | undefined): Promise<void>;
  /** Reports that something could not be renewed or ended. The connection continues without it. */
  warn(what: string, error: unknown): void;
  /** Called when the server no longer knew the session and a new one has started. */
  renewed(reason: LostReason): void;
}

const SESSION = 'mcp-session-id';
const LAST_EVENT = 'last-event-id';

/** Resumes the session of an earlier process over one HTTP connection, and stores a snapshot for the next one. */
export class Continuity implements ClientPart {
  readonly stream = new StandaloneStream(async (lastEventId) => {
    if (this.#snapshot) await this.#options.snapshots?.update(this.#snapshot, { lastEventId });
  });
  readonly #options: ContinuityOptions;
  /** Distinguishes the ids of this process from those of the previous one in the same session. Both SDKs count from 0. */
  readonly #epoch = `${randomBytes(6).toString('base64url')}:`;
  #state: SessionState = 'fresh';
  #snapshot: Snapshot | undefined;
  #sessionId: string | undefined;
  /** Whether an earlier process started the session, so that ids need the epoch. */
  #isInherited = false;
  /** The stored session that is left to another client, and whether the reason is that another process uses it. */
  #other: { readonly snapshot: Snapshot; readonly isUsed: boolean } | undefined;
  #transport: HttpTransport | undefined;
  #connection: Connection | undefined;
  #initialize: Params = {};
  #saving: Promise<void> | undefined;
  /** Without `initialize`, the first call binds the jar. Undefined once that is done. */
  #binding: Promise<void> | 'unbound' | undefined = 'unbound';
  #renewal: Promise<boolean> | undefined;
  /** Whether the warning about an overlong event id was emitted. */
  #hasSkipped = false;

  constructor(options: ContinuityOptions) {
    this.#options = options;
    if (options.from) this.#resume(options.from);
  }

  get state(): SessionState {
    return this.#state;
  }

  #on(event: SessionEvent): void {
    this.#state = TRANSITIONS[this.#state][event] ?? this.#state;
  }

  /** Takes over a stored session. */
  #resume(snapshot: Snapshot): void {
    this.#snapshot = snapshot;
    this.#sessionId = snapshot.sessionId;
    this.stream.lastEventId = snapshot.lastEventId;
    this.#isInherited = !snapshot.codec.isStateless;
    this.#other = undefined;
    this.#on('resume');
  }

  attach(transport: HttpTransport): void {
    this.#transport = transport;
    this.stream.transport = transport;
  }

  opening(connection: Connection): void {
    this.#connection = connection;
  }

  /** Resolves when the session's snapshot is stored and the jar is bound to it. */
  async settled(): Promise<void> {
    await this.#saving;
  }

  /** Binds session-scope state to the session, which is known only after `initialize` is answered. */
  async #bind(connection: Connection): Promise<void> {
    const { begun, warn } = this.#options;
    const isStored = this.#state === 'live' || this.#state === 'resumed';
    try {
      await begun(connection, isStored ? this.#sessionId : undefined);
    } catch (error) {
      warn('The state of its session could not be read or stored', error);
    }
  }

  /** Applies what is known of the session to a call, and records what the server says about it. */
  readonly middleware: ClientMiddleware = async (call, next) => {
    if (call.codec.isStateless) {
      const isSettled = this.#binding === undefined && this.#state !== 'resumed';
      return isSettled && call.method !== 'server/discover' ? next() : this.#stateless(call, next);
    }
    if (this.#isInherited) this.#mark(call);
    if (call.method === 'initialize') return this.#initializing(call, next);
    // Later calls wait until the `initialize` result is stored, so that a killed process leaves no session behind.
    const wait = this.#renewal ?? this.#saving;
    if (wait) await wait.catch(() => undefined);
    call.leftIn = this.#snapshot;
    const response = await next();
    this.#on('answered');
    return response;
  };

  async #stateless(call: Call, next: Next<RpcResponse>): Promise<RpcResponse> {
    if (call.method === 'server/discover') {
      const response = await next();
      if (!('result' in response)) return response;
      this.#snapshot = discovered(call.codec, response.result, call.request.params?._meta);
      await this.#save(this.#snapshot);
      return response;
    }
    if (this.#binding === 'unbound')
      this.#binding = this.#bind(call.connection).finally(() => (this.#binding = undefined));
    if (this.#binding) await this.#binding;
    const response = await next();
    // If the server no longer supports the version, the next connection runs discovery again.
    const isRejected = 'error' in response && response.error.code === UNSUPPORTED_VERSION;
    if (isRejected && this.#state === 'resumed') await this.#options.snapshots?.clear(this.#snapshot);
    this.#on('answered');
    return response;
  }

  /** Prefixes a call's id and progress token with the epoch. String ids of others stay unchanged. */
  #mark(call: Call): void {
    const { id, params } = call.request;
    if (typeof id !== 'number' && !id.startsWith('valise:')) return;
    call.baseId = `${this.#epoch}${id}`;
    const token = params?._meta?.['progressToken'];
    if (typeof token === 'number') call.addMeta('epoch', { progressToken: `${this.#epoch}${token}` });
  }

  /** Delivers a progress notification with the SDK's own token instead of the one with the epoch. */
  notified({ params, ...rest }: Notification, connection: Connection): boolean {
    const token = params?.['progressToken'];
    if (rest.method !== 'notifications/progress' || typeof token !== 'string') return false;
    if (!token.startsWith(this.#epoch)) return false;
    const progressToken = Number(token.slice(this.#epoch.length));
    connection.deliver({ ...rest, params: { ...params, progressToken } });
    return true;
  }

  /** Records the current session for the answer, which may be sent in another session than its call. */
  readonly incoming: ServerRequestMiddleware = async (exchange, next) => {
    const response = await next();
    exchange.leftIn = this.#snapshot;
    return response;
  };

  /** Decides whether the client's `initialize` resumes a stored session or starts a new one. */
  async #initializing(call: Call, next: Next<RpcResponse>): Promise<RpcResponse> {
    this.#initialize = call.request.params ?? {};
    const { snapshots, left } = this.#options;
    const isRenewal = this.#state === 'lost';
    // A session that replaces another one does not resume any other.
    const current = this.#state === 'resumed' ? this.#snapshot : this.#other?.snapshot;
    const candidate = !isRenewal && current && isToldOf(current, this.#initialize) ? current : undefined;
    const stored = candidate ?? snapshots?.seen(call.codec);
    const isAsked = !stored || isAskedRight(stored, this.#initialize);
    // A process that started its own session beside another one keeps doing so, because the other may restart and resume.
    const stays = isRenewal && this.#other?.isUsed === true;
    const isUsed = stored !== undefined && isAsked && (stays || !(await snapshots?.take(stored)));
    if (candidate && !isUsed) {
      this.#resume(candidate);
      const response = await next();
      // The snapshot may be outdated, so it does not count as what the server said.
      call.known = candidate.introduction;
      await this.#bind(call.connection);
      return response;
    }
    this.#other = stored && (isUsed || !isAsked) ? { snapshot: stored, isUsed } : undefined;
    this.#on('begin');
    this.#sessionId = undefined;
    const response = await next();
    if (!('result' in response)) return response;
    this.#snapshot = initialized(call.codec, response.result, this.#sessionId, this.#initialize);
    this.stream.lastEventId = undefined;
    if (stored?.sessionId !== undefined && !this.#other) await left(call.connection, stored.sessionId);
    return response;
  }

  /** Names the session of each HTTP request, and answers the client's introduction in a resumed session. */
  readonly http: HttpMiddleware = async (exchange, next) => {
    const { init, headers } = exchange;
    // The SDK's transport is one session behind after a new one has started.
    if (this.#sessionId === undefined) headers.delete(SESSION);
    else headers.set(SESSION, this.#sessionId);
    if (init.method === 'GET') return this.#streaming(exchange, next);
    const isIntroduced = this.#state === 'live' || this.#state === 'detached';
    const introduction = init.method === 'POST' && !isIntroduced ? introductionIn(init.body) : undefined;
    if (introduction && this.#state === 'resumed' && this.#snapshot)
      return isRequest(introduction) ? resumedResponse(introduction, this.#snapshot) : emptyResponse(202);
    if (introduction && isNotification(introduction) && this.#state === 'fresh' && this.#snapshot)
      void this.#save(this.#snapshot);
    const response = await next();
    if (init.method === 'DELETE' && response.ok) this.#ended();
    if (introduction && isRequest(introduction) && response.ok) {
      const id = response.headers.get(SESSION);
      this.#sessionId = isSessionId(id) ? id : undefined;
    }
    return response;
  };

  /** Opens a stream at the position of this process. */
  async #streaming({ headers }: HttpExchange, next: Next<Response>): Promise<Response> {
    const isStandalone = !headers.has(LAST_EVENT);
    // The SDKs open the standalone stream without a position, and would miss the events since ours.
    if (isStandalone && this.stream.lastEventId !== undefined)
      headers.set(LAST_EVENT, this.stream.lastEventId);
    const isOpenedLater = isStandalone && this.#isInherited;
    const response = await next().catch((error: unknown) => {
      if (isOpenedLater) this.stream.openLater();
      throw error;
    });
    // Another process, or the previous one, has the session's standalone stream.
    if (response.status === 409) {
      this.stream.openLater();
      await response.body?.cancel();
      // 405 means that the server has no such stream, which both SDKs accept without an error.
      return emptyResponse(405);
    }
    if (isOpenedLater && !response.ok && response.status !== 404 && response.status !== 405)
      this.stream.openLater();
    return response;
  }

  /**
   * Runs one new `initialize` if the session is over and the call was rejected. Resolves to true if the call should be retried.
   */
  async undelivered(call: Call, error: unknown): Promise<boolean> {
    const current = this.#snapshot;
    if (!current || INTRODUCTIONS.has(call.method)) return false;
    if (call.codec.isStateless) return this.#refused(call, current, error);
    const reason = whyLost(error, current.sessionId);
    if (reason === undefined) return false;
    // Another call has already noticed that the server has no transport sessions now.
    if (current.codec.isStateless)
      throw versionGoneError(((call.leftIn ?? current) as Snapshot).protocolVersion, error);
    // The rejection concerns the previous session, which another call has noticed already. This call uses the new session.
    if (call.leftIn !== current && !this.#renewal) return true;
    const over = (): void => void (this.#renewal = undefined);
    this.#renewal ??= this.#renew(call.connection, current, reason).finally(over);
    return this.#renewal;
  }

  /** Handles a server that rejects a stateless call, because it was replaced by an older one. */
  async #refused({ request }: Call, current: Snapshot, error: unknown): Promise<false> {
    const isGone = whyLost(error, undefined) !== undefined;
    // If another call has noticed first, the snapshot is already one with a session, and stays valid.
    const isUseless = current.codec.isStateless && (isGone || this.#state === 'resumed');
    if (isUseless && statusOf(error) === 400) await this.#options.snapshots?.clear(current);
    if (isGone) throw versionGoneError(String(request.params?._meta?.[CORE.protocolVersion]), error);
    return false;
  }

  async #renew(connection: Connection, old: Snapshot, reason: LostReason): Promise<boolean> {
    const { alone, snapshots, renewed, warn, client } = this.#options;
    this.#on('lost');
    try {
      await alone(async () => {
        const other = await snapshots?.load(old.codec);
        const isNewer = other && !isSame(other, old) && other.savedAt > old.savedAt;
        const serves = isNewer && !this.#other?.isUsed && isToldOf(other, this.#initialize);
        // Another process noticed first, and has started a session that this one can share.
        if (serves && (await snapshots?.take(other))) this.#resume(other);
        else await snapshots?.clear(old);
        await this.#introduce(connection, old);
        if (this.#state === 'lost' && this.#snapshot) await this.#save(this.#snapshot);
      });
      if (this.#snapshot) introduceAnew(client, connection, this.#snapshot);
      renewed(reason);
      return true;
    } catch (error) {
      // The server may have no transport sessions now, if another call has noticed first.
      if (isOtherVersion(error) || this.#snapshot?.codec.isStateless)
        throw versionGoneError(old.protocolVersion, error);
      // With the old id, the next call detects the loss again.
      if (this.#snapshot === old) this.#sessionId = old.sessionId;
      warn('A new session could not be started', error);
      return false;
    } finally {
      this.#on('failed');
    }
  }

  /** Introduces the client again: to the server, or to the session of another process, which the snapshot answers for. */
  async #introduce(connection: Connection, old: Snapshot): Promise<void> {
    // The version must be negotiated again. With an empty string, the transport sends none.
    this.#transport?.setProtocolVersion('');
    let version = old.protocolVersion;
    try {
      version = String((await connection.request('initialize', this.#initialize))['protocolVersion']);
    } finally {
      this.#transport?.setProtocolVersion(version);
    }
    await connection.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
  }

  /** Handles the end of a session that the host has ended. */
  #ended(): void {
    const { snapshots, left, warn } = this.#options;
    void snapshots?.release();
    void snapshots?.clear(this.#snapshot);
    const isStored = this.#state === 'live' || this.#state === 'resumed';
    if (isStored && this.#connection)
      left(this.#connection, this.#sessionId).catch((error: unknown) =>
        warn('The state of the session could not be deleted', error),
      );
    this.#on('ended');
    this.#snapshot = undefined;
    this.#sessionId = undefined;
  }

  /** Called when the standalone stream has an event whose id is too long to resume after. */
  skipped(): void {
    if (this.#hasSkipped) return;
    this.#hasSkipped = true;
    const why = new Error(`event ids may have at most ${MAX_EVENT_ID} characters.`);
    this.#options.warn('The position in the stream is not stored', why);
  }

  closed(): void {
    this.stream.close();
    void this.#options.snapshots?.release();
  }

  #save(snapshot: Snapshot): Promise<void> {
    const hasSessions = !snapshot.codec.isStateless;
    const store = async (): Promise<void> => {
      const isUsed = hasSessions && this.#other?.isUsed === true;
      const isStored = !isUsed && (await this.#options.snapshots?.save(snapshot)) === true;
      this.#on(isStored ? 'stored' : 'unstored');
      if (this.#connection && hasSessions && !isUsed) await this.#bind(this.#connection);
    };
    const saving = store().finally(() => {
      if (this.#saving === saving) this.#saving = undefined;
    });
    this.#saving = saving;
    return saving;
  }
}

/** Returns the `initialize` or `initialized` message in the body of a request. */
function introductionIn(body: RequestInit['body']): Request | Notification | undefined {
  if (typeof body !== 'string' || !body.includes('initialize')) return undefined;
  const message = JSON.parse(body) as Request | Notification;
  const { method } = message;
  return method === 'initialize' || method === 'notifications/initialized' ? message : undefined;
}

/** Answers `initialize` from a snapshot. The transport learns the session's id from it, as from the server. */
function resumedResponse({ id }: Request, snapshot: Snapshot): Response {
  const { introduction: result, sessionId } = snapshot;
  const headers = sessionId === undefined ? {} : { [SESSION]: sessionId };
  return Response.json({ jsonrpc: '2.0', id, result }, { headers });
}
