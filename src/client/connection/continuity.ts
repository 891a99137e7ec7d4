import { randomBytes } from 'node:crypto';
import type { Next } from '../../core/compose.ts';
import { MAX_EVENT_ID } from '../../link/edge-sse.ts';
import { CORE, INTRODUCTIONS, type Notification, type Params, type Response } from '../../wire/index.ts';
import { UNSUPPORTED_VERSION } from '../../wire/message.ts';
import { isSessionId } from '../../wire/session.ts';
import type { Call } from '../call.ts';
import type { ClientMiddleware, Connection } from '../connection.ts';
import type { ClientPart } from '../part.ts';
import type { ServerRequestMiddleware } from '../server-request.ts';
import { isOtherVersion, type LostReason, statusOf, versionGoneError, whyLost } from './errors.ts';
import type { HttpTransport } from './http.ts';
import type { Keeping } from './keeping.ts';
import {
  discovered,
  initialized,
  introduceAnew,
  isAskedRight,
  isSame,
  isToldOf,
  type Snapshot,
} from './snapshot.ts';
import { type SessionSeat, StandaloneStream } from './stream.ts';

/** Resumes the session of an earlier process over one HTTP connection, and stores a snapshot for the next one. */
export class Continuity implements ClientPart, SessionSeat {
  readonly #options: ContinuityOptions;
  readonly #epoch = new Epoch();
  readonly #stream = new StandaloneStream(async (lastEventId) => {
    if (this.#snapshot) await this.#options.keeping.update(this.#snapshot, { lastEventId });
  });
  #transport: HttpTransport | undefined;
  /** Set from the start until the client believes that it has initialized. */
  #resuming: Snapshot | undefined;
  /** The snapshot of a session that this process must not replace, until this client initializes again. */
  #spared: Snapshot | undefined;
  /** Whether the reason is that another process uses that session. */
  #isBeside = false;
  #anew = false;
  #marked = false;
  /** The snapshot that a modern connection started from, until the server has responded. */
  #unproved: Snapshot | undefined;
  #snapshot: Snapshot | undefined;
  #sessionId: string | undefined;
  /** Whether later processes can find the session. */
  #isKept = false;
  #connection: Connection | undefined;
  #initialize: Params = {};
  #saving: Promise<void> | undefined;
  /** The modern era has no `initialize`, so its first call binds the jar. Undefined once that is done. */
  #binding: Promise<void> | 'unbound' | undefined = 'unbound';
  #renewal: Promise<boolean> | undefined;
  /** Whether the warning about an overlong event id was emitted. */
  #hasSkipped = false;

  constructor(options: ContinuityOptions) {
    const { kept } = options;
    this.#options = options;
    if (kept) this.#take(kept);
    this.#resuming = kept?.era === 'legacy' ? kept : undefined;
    this.#unproved = kept?.era === 'modern' ? kept : undefined;
  }

  /** Resumes a stored session. */
  #take(kept: Snapshot): void {
    this.#snapshot = kept;
    this.#sessionId = kept.sessionId;
    this.#stream.lastEventId = kept.lastEventId;
    this.#isKept = true;
    this.#marked = kept.era === 'legacy';
    this.#spared = undefined;
    this.#isBeside = false;
  }

  /** Whether the connection resumes the session of an earlier process. */
  get goesOn(): boolean {
    return this.#options.kept !== undefined && !this.#anew;
  }

  get sessionId(): string | undefined {
    return this.#sessionId;
  }

  /** Resolves when the session's snapshot is stored and the jar is bound to it. */
  async settled(): Promise<void> {
    await this.#saving;
  }

  /**
   * Binds session-scope state to the session. The session is known only after `initialize` is answered, which the client of
   * a bridge sends long after it has connected.
   */
  async #bind(connection: Connection): Promise<void> {
    const { begun, warn } = this.#options;
    try {
      await begun(connection, this.#isKept ? this.#sessionId : undefined);
    } catch (error) {
      warn('The state of its session could not be read or kept', error);
    }
  }

  get lastEventId(): string | undefined {
    return this.#stream.lastEventId;
  }

  /** Makes the transport report the session id that is known here. */
  attach(transport: HttpTransport): void {
    this.#transport = transport;
    this.#stream.transport = transport;
    Object.defineProperty(transport, 'sessionId', {
      configurable: true,
      // Both SDKs skip `initialize` if the transport has a session, and then lack the server's capabilities.
      get: () => (this.#resuming ? undefined : this.#sessionId),
    });
  }

  opening(connection: Connection): void {
    this.#connection = connection;
  }

  /** Applies what is known of the session to a call, and records what the server says about it. */
  readonly middleware: ClientMiddleware = async (call, next) => {
    if (call.era === 'modern') return this.#modern(call, next);
    if (this.#marked) this.#epoch.mark(call);
    if (call.method === 'initialize') return this.#initializing(call, next);
    // Later calls wait until the `initialize` result is stored, so that a killed process leaves no session behind.
    const wait = this.#renewal ?? this.#saving;
    if (wait) await wait.catch(() => undefined);
    call.leftIn = this.#snapshot;
    return next();
  };

  async #modern(call: Call, next: Next<Response>): Promise<Response> {
    if (call.method === 'server/discover') return this.#discovered(call, await next());
    const isUnproved = this.#unproved !== undefined;
    if (this.#binding === 'unbound')
      this.#binding = this.#bind(call.connection).finally(() => (this.#binding = undefined));
    if (this.#binding) await this.#binding;
    const response = await next();
    return isUnproved ? this.#proved(response) : response;
  }

  /** Records the current session for the answer, which may be sent in another session than its call. */
  readonly incoming: ServerRequestMiddleware = async (exchange, next) => {
    const response = await next();
    exchange.leftIn = this.#snapshot;
    return response;
  };

  async #initializing(call: Call, next: Next<Response>): Promise<Response> {
    this.#initialize = call.request.params ?? {};
    const { keeping, left } = this.#options;
    // A session that replaces a lost one does not resume any other.
    const kept = this.#renewal ? undefined : (this.#resuming ?? this.#spared);
    const isTold = kept !== undefined && isToldOf(kept, this.#initialize);
    const seen = isTold ? kept : keeping.seen;
    const isAsked = !seen || isAskedRight(seen, this.#initialize);
    // A process that started its own session beside another one keeps doing so, because the other may restart and resume.
    const stays = this.#renewal !== undefined && this.#isBeside;
    this.#isBeside = seen !== undefined && isAsked && (stays || !(await keeping.isFree(seen)));
    if (isTold && !this.#isBeside) {
      this.#take(kept);
      this.#resuming = kept;
      this.#anew = false;
      call.known = kept.introduction;
      const response = await next();
      await this.#bind(call.connection);
      return response;
    }
    this.#spared = isAsked && !this.#isBeside ? undefined : seen;
    const before = this.#spared ? undefined : seen?.sessionId;
    this.#anew = true;
    this.#isKept = false;
    this.#resuming = undefined;
    this.#sessionId = undefined;
    call.addHints({
      onResponse: ({ ok, headers }) => {
        const id = ok ? headers.get('mcp-session-id') : undefined;
        this.#sessionId = isSessionId(id) ? id : undefined;
      },
    });
    const response = await next();
    if (!('result' in response)) return response;
    this.#snapshot = initialized(response.result, this.#sessionId, this.#initialize);
    this.#stream.lastEventId = undefined;
    if (before !== undefined) await left(call.connection, before);
    return response;
  }

  async #discovered(call: Call, response: Response): Promise<Response> {
    if (!('result' in response)) return response;
    this.#snapshot = discovered(response.result, call.request.params?._meta);
    await this.#save(this.#snapshot);
    return response;
  }

  /** Checks the first response. If the server no longer supports the version, the next connection runs discovery again. */
  async #proved(response: Response): Promise<Response> {
    const isRefused = 'error' in response && response.error.code === UNSUPPORTED_VERSION;
    if (isRefused) await this.#options.keeping.forget(this.#unproved);
    this.#unproved = undefined;
    return response;
  }

  /**
   * Suppresses `initialized` when resuming, because the server received it from the earlier process. Reopens the stream instead.
   */
  notifying({ method }: Notification): boolean {
    if (method !== 'notifications/initialized') return false;
    if (!this.#resuming) {
      if (this.#snapshot) void this.#save(this.#snapshot);
      return false;
    }
    this.#resuming = undefined;
    this.#stream.open();
    return true;
  }

  notified(notification: Notification, connection: Connection): boolean {
    const own = this.#epoch.unmarked(notification);
    if (own) connection.link.deliver(own);
    return own !== undefined;
  }

  /**
   * Runs one new `initialize` if the session is over and the call was rejected. Resolves to true if the call should be retried.
   */
  async undelivered(call: Call, error: unknown): Promise<boolean> {
    const lost = this.#snapshot;
    if (!lost || INTRODUCTIONS.has(call.method)) return false;
    if (call.era === 'modern') return this.#refused(call, lost, error);
    const reason = whyLost(error, lost.sessionId);
    if (reason === undefined) return false;
    // Another call has already noticed that the server uses the modern era now.
    if (lost.era === 'modern')
      throw versionGoneError(((call.leftIn ?? lost) as Snapshot).protocolVersion, error);
    // The rejection concerns the previous session, which another call has noticed already. This call uses the new session.
    if (call.leftIn !== lost && !this.#renewal) return true;
    const over = (): void => void (this.#renewal = undefined);
    this.#renewal ??= this.#renew(call.connection, lost, reason).finally(over);
    return this.#renewal;
  }

  /** Handles a server that answers a modern call like a legacy one, because it was replaced by an older one. */
  async #refused({ request }: Call, lost: Snapshot, error: unknown): Promise<false> {
    const isGone = whyLost(error, undefined) !== undefined;
    // If another call has noticed first, the snapshot is already a legacy one, and stays valid.
    const known = isGone && lost.era === 'modern' ? lost : this.#unproved;
    if (statusOf(error) === 400) await this.#options.keeping.forget(known);
    if (isGone) throw versionGoneError(String(request.params?._meta?.[CORE.protocolVersion]), error);
    return false;
  }

  async #renew(connection: Connection, lost: Snapshot, reason: LostReason): Promise<boolean> {
    const { alone, keeping, renewed, warn } = this.#options;
    try {
      await alone(async () => {
        const other = await keeping.load();
        const isNewer = other && !isSame(other, lost) && other.savedAt > lost.savedAt;
        const serves = isNewer && !this.#isBeside && isToldOf(other, this.#initialize);
        if (serves && (await keeping.isFree(other))) await this.#follow(connection, other);
        else await this.#begin(connection, lost);
      });
      if (this.#snapshot) introduceAnew(this.#options.client, connection, this.#snapshot);
      renewed(reason);
      return true;
    } catch (error) {
      // The modern era may have begun meanwhile, if another call has noticed first.
      if (isOtherVersion(error) || this.#snapshot?.era === 'modern')
        throw versionGoneError(lost.protocolVersion, error);
      // With the old id, the next call detects the loss again.
      if (this.#snapshot === lost) this.#sessionId = lost.sessionId;
      warn('A new session could not be begun', error);
      return false;
    }
  }

  /** Follows another process that noticed first and has started a session that this one can share. */
  async #follow(connection: Connection, other: Snapshot): Promise<void> {
    this.#take(other);
    await this.#bind(connection);
    this.#transport?.setProtocolVersion(other.protocolVersion);
    this.#stream.open();
  }

  async #begin(connection: Connection, lost: Snapshot): Promise<void> {
    await this.#options.keeping.forget(lost);
    // The version must be negotiated again. With an empty string, the transport sends none.
    this.#transport?.setProtocolVersion('');
    let version = lost.protocolVersion;
    try {
      version = String((await connection.request('initialize', this.#initialize))['protocolVersion']);
    } finally {
      this.#transport?.setProtocolVersion(version);
    }
    await connection.link.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    if (this.#snapshot) await this.#save(this.#snapshot);
  }

  ended(): void {
    const { keeping, left, warn } = this.#options;
    keeping.leave();
    void keeping.forget(this.#snapshot);
    if (this.#isKept && this.#connection)
      left(this.#connection, this.#sessionId).catch((error: unknown) => warn('Its state stays', error));
    this.#resuming = undefined;
    this.#snapshot = undefined;
    this.#sessionId = undefined;
  }

  read(lastEventId: string): void {
    this.#stream.read(lastEventId);
  }

  skipped(): void {
    if (this.#hasSkipped) return;
    this.#hasSkipped = true;
    const why = new Error(`ids of events may have ${MAX_EVENT_ID} characters.`);
    this.#options.warn('Where the stream stands is not kept', why);
  }

  streamTaken(): void {
    this.#stream.openLater();
  }

  closed(): void {
    this.#stream.close();
    this.#options.keeping.leave();
  }

  #save(snapshot: Snapshot): Promise<void> {
    const { keeping } = this.#options;
    if (snapshot.era === 'legacy' && this.#isBeside) return Promise.resolve();
    const saving = keeping
      .save(snapshot, this.#spared !== undefined)
      .then((kept) => {
        this.#isKept = kept;
        return this.#connection && snapshot.era === 'legacy' ? this.#bind(this.#connection) : undefined;
      })
      .finally(() => {
        if (this.#saving === saving) this.#saving = undefined;
      });
    this.#saving = saving;
    return saving;
  }
}

/** The dependencies of `Continuity`. */
export interface ContinuityOptions {
  /** The SDK's client. */
  readonly client: object;
  /** Stores the connection's snapshot for later processes. */
  readonly keeping: Keeping;
  /** The snapshot to resume from. */
  readonly kept: Snapshot | undefined;
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

/**
 * Distinguishes the ids of one process from those of the previous one in the same session. Both SDKs count from 0, so a
 * server still working on an old call could answer the new one with its result.
 */
export class Epoch {
  readonly #mark = `${randomBytes(6).toString('base64url')}:`;

  /** Prefixes a call's id and progress token with the mark. String ids of others stay unchanged. */
  mark(call: Call): void {
    const { id, params } = call.request;
    if (typeof id !== 'number' && !id.startsWith('valise:')) return;
    call.baseId = `${this.#mark}${id}`;
    const token = params?._meta?.['progressToken'];
    if (typeof token === 'number') call.addMeta('epoch', { progressToken: `${this.#mark}${token}` });
  }

  /** Returns a progress notification with the SDK's own token. Returns undefined if the token is not marked by this process. */
  unmarked({ params, ...notification }: Notification): Notification | undefined {
    const token = params?.['progressToken'];
    if (notification.method !== 'notifications/progress' || typeof token !== 'string') return undefined;
    if (!token.startsWith(this.#mark)) return undefined;
    return { ...notification, params: { ...params, progressToken: Number(token.slice(this.#mark.length)) } };
  }
}
