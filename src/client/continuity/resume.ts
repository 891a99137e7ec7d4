import type { Next } from '../../core/compose.ts';
import { MAX_EVENT_ID } from '../../link/edge-sse.ts';
import { CORE, INTRODUCTIONS, type Notification, type Params, type Response } from '../../wire/index.ts';
import { UNSUPPORTED_VERSION } from '../../wire/message.ts';
import { isSessionId } from '../../wire/session.ts';
import type { Ask } from '../ask.ts';
import type { Call } from '../call.ts';
import type { ClientMiddleware, Connection } from '../connection.ts';
import type { HttpTransport } from '../http.ts';
import type { ClientPart } from '../part.ts';
import type { ContinuityOptions } from './continuity-options.ts';
import { Epoch } from './epoch.ts';
import { discovered, initialized, introduceAnew, isAskedRight, isToldOf } from './introduce.ts';
import { isOtherVersion, type LostReason, statusOf, versionGoneError, whyLost } from './lost.ts';
import type { SessionSeat } from './session-fetch.ts';
import { isSame, type Snapshot } from './snapshot.ts';
import { StandaloneStream } from './stream.ts';

/** How one HTTP connection goes on where an earlier process was, and what it leaves for the next one. */
export class Continuity implements ClientPart, SessionSeat {
  readonly #options: ContinuityOptions;
  readonly #epoch = new Epoch();
  readonly #stream = new StandaloneStream(async (lastEventId) => {
    if (this.#snapshot) await this.#options.keeping.update(this.#snapshot, { lastEventId });
  });
  #transport: HttpTransport | undefined;
  /** Set from the start until the client believes that it has initialised. */
  #resuming: Snapshot | undefined;
  /** What is kept of a session that is not ours to replace, until this client begins once more. */
  #spared: Snapshot | undefined;
  /** Whether that is because another process is in it. */
  #isBeside = false;
  #anew = false;
  #marked = false;
  /** What a modern connection started from, until the server has answered. */
  #unproved: Snapshot | undefined;
  #snapshot: Snapshot | undefined;
  #sessionId: string | undefined;
  /** Whether later processes find the session. */
  #isKept = false;
  #connection: Connection | undefined;
  #initialize: Params = {};
  #saving: Promise<void> | undefined;
  /** The newer era has no `initialize`: its first call has the jar follow. Undefined once that is done. */
  #binding: Promise<void> | 'unbound' | undefined = 'unbound';
  #renewal: Promise<boolean> | undefined;
  /** Whether it was told that an id of an event was too long. */
  #hasSkipped = false;

  constructor(options: ContinuityOptions) {
    const { kept } = options;
    this.#options = options;
    if (kept) this.#take(kept);
    this.#resuming = kept?.era === 'legacy' ? kept : undefined;
    this.#unproved = kept?.era === 'modern' ? kept : undefined;
  }

  /** Goes on in a session that is kept. */
  #take(kept: Snapshot): void {
    this.#snapshot = kept;
    this.#sessionId = kept.sessionId;
    this.#stream.lastEventId = kept.lastEventId;
    this.#isKept = true;
    this.#marked = kept.era === 'legacy';
    this.#spared = undefined;
    this.#isBeside = false;
  }

  /** Whether the connection goes on where an earlier process was. */
  get goesOn(): boolean {
    return this.#options.kept !== undefined && !this.#anew;
  }

  get sessionId(): string | undefined {
    return this.#sessionId;
  }

  /** Resolves when what is known of the session is kept, and the jar follows it. */
  async settled(): Promise<void> {
    await this.#saving;
  }

  /**
   * Has session-scope state follow the session. Only once `initialize` is answered is it known which one that is: the
   * client of a bridge sends it long after it has connected.
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

  /** Has the transport say what we know of its session. */
  attach(transport: HttpTransport): void {
    this.#transport = transport;
    this.#stream.transport = transport;
    Object.defineProperty(transport, 'sessionId', {
      configurable: true,
      // Both SDKs skip `initialize` where the transport has a session, and are then left without the server's capabilities.
      get: () => (this.#resuming ? undefined : this.#sessionId),
    });
  }

  opening(connection: Connection): void {
    this.#connection = connection;
  }

  /** Goes on with what is known of the session, and notes what the server says of it. */
  readonly middleware: ClientMiddleware = async (call, next) => {
    if (call.era === 'modern') return this.#modern(call, next);
    if (this.#marked) this.#epoch.mark(call);
    if (call.method === 'initialize') return this.#initializing(call, next);
    // What follows `initialize` leaves once its result is kept: no process that is killed now leaves a session behind.
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

  /** The answer may leave in another session than the call that it belongs to. */
  asked(ask: Ask): undefined {
    ask.whenAnswered((response) => {
      ask.leftIn = this.#snapshot;
      return response;
    });
  }

  async #initializing(call: Call, next: Next<Response>): Promise<Response> {
    this.#initialize = call.request.params ?? {};
    const { keeping, left } = this.#options;
    // What is begun in place of a session that was lost goes on in none.
    const kept = this.#renewal ? undefined : (this.#resuming ?? this.#spared);
    const isTold = kept !== undefined && isToldOf(kept, this.#initialize);
    const seen = isTold ? kept : keeping.seen;
    const isAsked = !seen || isAskedRight(seen, this.#initialize);
    // Who has begun beside another process stays there: that one may be started again, and goes on then.
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

  /** The first answer says whether the server is still what it said it was; if not, the next connection asks it. */
  async #proved(response: Response): Promise<Response> {
    const isRefused = 'error' in response && response.error.code === UNSUPPORTED_VERSION;
    if (isRefused) await this.#options.keeping.forget(this.#unproved);
    this.#unproved = undefined;
    return response;
  }

  /** The server has had its `initialized` from the earlier process; what it does not have any more is our stream. */
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

  /** The session is over and the call was not taken: one new `initialize`, then the call once more. */
  async undelivered(call: Call, error: unknown): Promise<boolean> {
    const lost = this.#snapshot;
    if (!lost || INTRODUCTIONS.has(call.method)) return false;
    if (call.era === 'modern') return this.#refused(call, lost, error);
    const reason = whyLost(error, lost.sessionId);
    if (reason === undefined) return false;
    // Another call has noticed first that the server is one of the newer era by now.
    if (lost.era === 'modern')
      throw versionGoneError(((call.leftIn ?? lost) as Snapshot).protocolVersion, error);
    // A refusal of the session before, which another call has noticed first: this one goes with the new session.
    if (call.leftIn !== lost && !this.#renewal) return true;
    const over = (): void => void (this.#renewal = undefined);
    this.#renewal ??= this.#renew(call.connection, lost, reason).finally(over);
    return this.#renewal;
  }

  /** A server that answers a call of the newer era as older ones do was replaced by one. */
  async #refused({ request }: Call, lost: Snapshot, error: unknown): Promise<false> {
    const isGone = whyLost(error, undefined) !== undefined;
    // Where another call has noticed first, what is known of the server is of the older era by now, and holds.
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
      // The newer era may have begun meanwhile, where another call has noticed first.
      if (isOtherVersion(error) || this.#snapshot?.era === 'modern')
        throw versionGoneError(lost.protocolVersion, error);
      // With the old one, the next call finds out again.
      if (this.#snapshot === lost) this.#sessionId = lost.sessionId;
      warn('A new session could not be begun', error);
      return false;
    }
  }

  /** Another process has noticed first, and has begun a session that serves us as well. */
  async #follow(connection: Connection, other: Snapshot): Promise<void> {
    this.#take(other);
    await this.#bind(connection);
    this.#transport?.setProtocolVersion(other.protocolVersion);
    this.#stream.open();
  }

  async #begin(connection: Connection, lost: Snapshot): Promise<void> {
    await this.#options.keeping.forget(lost);
    // The version is to be agreed on anew; without a text here, the transport sends none.
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
