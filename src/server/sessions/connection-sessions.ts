import type { Exchange, ServerLink } from '../exchange.ts';
import { Quota } from '../quota.ts';
import { metaOf, type OpenSession, type Requester } from './backend.ts';
import { newRecord } from './create.ts';
import { tooMany } from './errors.ts';
import { endedSession } from './expiry.ts';
import type { SessionsSettings } from './options.ts';
import type { SessionRecord, SessionRecords } from './records.ts';
import { type ActiveSession, PreparedSession } from './request-session.ts';
import type { EndReason } from './session.ts';
import { callerList } from './session-index.ts';
import { SessionState, type Values } from './session-state.ts';

/** The default session of a connection. It ends with the connection. */
interface ConnectionSession {
  record: SessionRecord;
  /** The key under which the bytes of its state are counted. */
  readonly key: symbol;
  /** Releases its place among the sessions of this process. */
  readonly release: () => void;
  /** The pending `onCreate` call. No handler runs in the session until it is done. */
  preparing: Promise<void> | undefined;
}

/**
 * Default sessions of connections, in the memory of this process.
 *
 * They need no store, since no other instance can serve the connection. They begin without waiting, in the handler that first
 * asks for one, and end as the connection closes.
 */
export class ConnectionSessions {
  readonly #settings: SessionsSettings;
  readonly #records: SessionRecords;
  /** By connection and subject. */
  readonly #sessions = new WeakMap<ServerLink, Map<string, ConnectionSession>>();
  readonly #anonymous: Quota;
  readonly #principals: Quota;

  constructor(settings: SessionsSettings, records: SessionRecords) {
    this.#settings = settings;
    this.#records = records;
    const { maxAnonymous, maxAnonymousPerCaller, maxPerPrincipal } = settings;
    this.#anonymous = new Quota({
      perCaller: { count: maxAnonymousPerCaller },
      total: { count: maxAnonymous },
    });
    this.#principals = new Quota({ perCaller: { count: maxPerPrincipal }, total: {} });
  }

  /** Returns the session of a connection and subject. Throws if there are too many already. */
  async open(exchange: Exchange, requester: Requester, id: string): Promise<ActiveSession> {
    const session = this.#find(exchange, requester) ?? this.#begin(exchange, requester, id);
    if (session.preparing) await session.preparing;
    return this.#activate(exchange, requester, session);
  }

  /** Works as {@link open}, but synchronously. Returns undefined if an author's hook must be awaited. */
  openNow(exchange: Exchange, requester: Requester, id: string): ActiveSession | undefined {
    const found = this.#find(exchange, requester);
    if (found ? found.preparing : this.#settings.onCreate) return undefined;
    return this.#activate(exchange, requester, found ?? this.#begin(exchange, requester, id));
  }

  #find({ link }: Exchange, { subject = '' }: Requester): ConnectionSession | undefined {
    return this.#sessions.get(link)?.get(subject);
  }

  /** Begins a session. Throws if there are too many already. */
  #begin({ link }: Exchange, requester: Requester, id: string): ConnectionSession {
    const { subject = '', owner } = requester;
    const release = this.#reserve(requester);
    const key = Symbol('default session');
    const created = Date.now();
    const until = created + this.#settings.maxLifetime * 1000;
    const session: ConnectionSession = {
      record: { ...newRecord(this.#settings, id, owner), created, expires: until, until, data: {} },
      key,
      release: () => {
        release();
        this.#records.releaseBytes(key);
      },
      preparing: undefined,
    };
    const sessions = this.#sessionsOf(link).set(subject, session);
    const { onCreate } = this.#settings;
    if (!onCreate) return session;
    const opened = this.#open(session);
    const prepare = async (): Promise<void> => {
      try {
        await onCreate(new PreparedSession(opened, { isDefault: true }));
        this.#save(session, requester, opened.state.merged());
        session.preparing = undefined;
      } catch (error) {
        sessions.delete(subject);
        session.release();
        throw error;
      }
    };
    session.preparing = prepare();
    return session;
  }

  #sessionsOf(link: ServerLink): Map<string, ConnectionSession> {
    let sessions = this.#sessions.get(link);
    if (!sessions) {
      this.#sessions.set(link, (sessions = new Map()));
      link.closed.addEventListener('abort', () => this.#closed(link));
    }
    return sessions;
  }

  #closed(link: ServerLink): void {
    for (const session of this.#sessions.get(link)?.values() ?? []) {
      session.release();
      const ended = session.preparing
        ? session.preparing.then(() => this.#callOnEnd(session, 'closed'))
        : this.#callOnEnd(session, 'closed');
      ended.catch(() => undefined);
    }
    this.#sessions.delete(link);
  }

  #reserve({ subject, caller }: Requester): () => void {
    const taken = (subject === undefined ? this.#anonymous : this.#principals).take(caller);
    if (typeof taken === 'function') return taken;
    if (subject !== undefined) throw tooMany('sessions.maxPerPrincipal');
    throw tooMany(`sessions.maxAnonymous${taken === 'caller-count' ? 'PerCaller' : ''}`);
  }

  /** Saves the state. Throws if the session is anonymous and exceeds the limit. */
  #save(session: ConnectionSession, { subject, caller }: Requester, data: Values): void {
    if (subject === undefined) {
      const bytes = Buffer.byteLength(JSON.stringify(data));
      this.#records.countBytes(callerList(caller), { key: session.key, bytes });
    }
    session.record = { ...session.record, data };
  }

  #open({ record }: ConnectionSession): OpenSession {
    return { record, state: new SessionState(record.data ?? {}, this.#settings), stored: undefined };
  }

  #activate(exchange: Exchange, requester: Requester, session: ConnectionSession): ActiveSession {
    const opened = this.#open(session);
    const { record, state } = opened;
    return {
      session: opened,
      isDefault: true,
      commit: async () => {
        if (!state.isChanged) return metaOf(session.record);
        if (session.record.seq !== record.seq && !state.rebase(session.record.data ?? {})) return 'conflict';
        this.#save(session, requester, state.checked());
        session.record = { ...session.record, seq: session.record.seq + 1 };
        return metaOf(session.record);
      },
      end: async () => {
        // Handlers that run in parallel may all revoke it. It ends only once.
        if (this.#find(exchange, requester) !== session) return;
        this.#sessions.get(exchange.link)?.delete(requester.subject ?? '');
        session.release();
        await this.#callOnEnd(session, 'revoked');
      },
    };
  }

  async #callOnEnd({ record }: ConnectionSession, reason: EndReason): Promise<void> {
    await this.#settings.onEnd?.(endedSession(record, reason));
  }
}
