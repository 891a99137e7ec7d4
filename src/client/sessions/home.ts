import { redactUrls } from '../../redact-urls.ts';
import type { SessionMeta } from '../../wire/index.ts';
import type { Account } from '../account.ts';
import type { Connection } from '../connection.ts';
import type { ClientEventSource } from '../events.ts';
import type { JarPart } from '../jar/middleware.ts';
import { targetKey } from '../target.ts';
import { explain, SessionCalls } from './calls.ts';
import { isUnknownMethod, SessionGoneError, sessionErrorIn } from './errors.ts';
import { checkBehaviour, checkCreation, checkNamed } from './given.ts';
import { type Kept, type KeptSessions, metaOf } from './kept.ts';
import { Streams } from './listening.ts';
import { HeldSession } from './session.ts';
import type { CreateOptions, SessionBehaviour, SessionListing } from './types.ts';

/** Options that all homes share. */
export interface HomeOptions {
  readonly kept: KeptSessions;
  readonly events: ClientEventSource;
  readonly jar: Pick<JarPart, 'endSession'>;
}

const MAX_GONE = 10_000;
/** How long a closing client waits for its server, in seconds. */
const PARTING = 5;

/** The sessions with one server, over one client's connection. They are never sent to another server or for another user. */
export class Home {
  readonly target: string;
  /** Whether its sessions may be stored. False if the server is unknown, because a stored session could reach another one. */
  readonly keeps: boolean;
  readonly streams = new Streams(() => this.#calls);
  readonly #options: HomeOptions;
  readonly #live = new Set<HeldSession>();
  readonly #gone = new Set<string>();
  readonly #saving = new WeakMap<HeldSession, Promise<void>>();
  readonly #renewals = new WeakMap<HeldSession, Promise<boolean>>();
  #client: object;
  #calls: SessionCalls;
  #isOpen = true;

  constructor(connection: Connection, client: object, options: HomeOptions) {
    this.#client = client;
    this.#calls = new SessionCalls(connection, client);
    this.#options = options;
    this.target = targetKey(connection.target);
    this.keeps = connection.target.kind !== 'unknown';
  }

  /** The account that its sessions belong to. */
  get account(): Account {
    return this.#calls.connection.account;
  }

  get live(): Iterable<HeldSession> {
    return this.#live;
  }

  /** Whether these are the sessions of that client. */
  isOf(client: object): boolean {
    return client === this.#client;
  }

  /** Whether its connection is open. Once it has closed, the next client of the server takes over this home. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Takes over the connection of a newly connected client. */
  moved(connection: Connection, client: object): void {
    this.#client = client;
    this.#calls = new SessionCalls(connection, client);
    this.#isOpen = true;
  }

  async create(options: CreateOptions = {}): Promise<HeldSession> {
    checkCreation('sessions.create', options);
    return this.#begin(await this.#calls.create(options.label), options);
  }

  async fork(parent: HeldSession, options: CreateOptions): Promise<HeldSession> {
    checkCreation('session.fork', options);
    this.check(parent);
    try {
      return await this.#begin(await this.#calls.fork(parent.sent(), options.label), options);
    } catch (error) {
      if (sessionErrorIn(error)?.kind !== 'not-found') throw error;
      const { id } = parent;
      await this.gone(parent, id);
      throw new SessionGoneError(id, parent.label, error);
    }
  }

  async named(label: string, behaviour: SessionBehaviour = {}): Promise<HeldSession> {
    checkNamed(label, behaviour);
    const find = async (): Promise<HeldSession | undefined> => {
      for (const session of this.#live) if (session.label === label && !session.isGone) return session;
      const kept = this.keeps ? await this.#options.kept.list(this.target, this.account) : [];
      const found = kept.find((each) => each.label === label && !this.#gone.has(each.id));
      return found && this.#enter(metaOf(found), { ...behaviour, label });
    };
    const make = async (): Promise<HeldSession> => (await find()) ?? this.create({ ...behaviour, label });
    return (await find()) ?? (this.keeps ? this.#options.kept.alone(this.target, label, make) : make());
  }

  /** Resumes a session, or recovers it from the server's own copy. Only `recover` can bring back a session that was gone. */
  async resume(
    id: string,
    behaviour: SessionBehaviour = {},
    verb: 'resume' | 'recover' = 'resume',
  ): Promise<HeldSession> {
    checkBehaviour(`sessions.${verb}`, behaviour);
    const live = this.find(id);
    if (live) return live;
    if (verb === 'resume' && this.#gone.has(id)) throw new SessionGoneError(id, undefined);
    const kept = this.keeps ? await this.#options.kept.get(this.target, id, this.account) : undefined;
    const meta: SessionMeta = kept ? metaOf(kept) : { sessionId: id };
    const options: CreateOptions = { ...behaviour, label: kept?.label, keep: true };
    try {
      const resumed = await this.#calls.resume(meta, verb);
      this.#gone.delete(id);
      return await this.#begin(resumed, options);
    } catch (error) {
      if (kept && verb === 'resume' && isUnknownMethod(error)) return this.#enter(meta, options);
      if (sessionErrorIn(error)?.kind !== 'not-found') return explain(error);
      await this.#markDead(id);
      throw new SessionGoneError(id, kept?.label, error);
    }
  }

  /** Returns the live session with that id. */
  find(id: string): HeldSession | undefined {
    for (const session of this.#live) if (session.id === id && !session.isGone) return session;
    return undefined;
  }

  /** Returns to the session of a call that has waited, as it is stored now or as the call last knew it. */
  async reenter(known: Kept): Promise<HeldSession> {
    const { id, label } = known;
    const live = this.find(id);
    if (live) return live;
    if (this.#gone.has(id)) throw new SessionGoneError(id, label, undefined, true);
    const kept = this.keeps ? await this.#options.kept.get(this.target, id, this.account) : undefined;
    return this.find(id) ?? this.#enter(metaOf(kept ?? known), { label, keep: kept !== undefined });
  }

  async list(): Promise<readonly SessionListing[]> {
    const kept = this.keeps ? await this.#options.kept.list(this.target, this.account) : [];
    const known = new Map(kept.map((each) => [each.id, each]));
    const listed = new Map((await this.#calls.list())?.map((each) => [each.id, each]));
    return [...listed.values(), ...kept.filter(({ id }) => !listed.has(id))]
      .filter(({ id }) => !this.#gone.has(id))
      .map(({ id, label, expiresAt }) => ({
        id,
        label: label ?? known.get(id)?.label,
        ...timesOf(expiresAt),
        isKept: known.has(id),
        isListed: listed.has(id),
      }));
  }

  async deleteById(id: string): Promise<boolean> {
    const live = this.find(id);
    const kept = this.keeps ? await this.#options.kept.get(this.target, id, this.account) : undefined;
    const { state = kept?.state } = live?.sent() ?? {};
    const sent = { sessionId: id, ...(state !== undefined && { state }) };
    const isKnown = await this.#calls.delete(sent).then(
      () => true,
      (error: unknown) => {
        if (sessionErrorIn(error)?.kind !== 'not-found') throw error;
        return false;
      },
    );
    if (live) await this.#end(live, id, 'deleted');
    else await this.#markDead(id);
    return isKnown;
  }

  async delete(session: HeldSession, timeout?: number): Promise<void> {
    if (session.isGone) return;
    const { id } = session;
    try {
      await this.#calls.delete(session.sent(), timeout);
    } catch (error) {
      if (sessionErrorIn(error)?.kind !== 'not-found') throw error;
    }
    await this.#end(session, id, 'deleted');
  }

  /** Ends a session that the server no longer knows. */
  async gone(session: HeldSession, id: string): Promise<void> {
    if (session.id !== id || session.isGone) return;
    await this.#end(session, id, 'gone');
  }

  /** Replaces a session that is gone with a new one, once for all calls that find it gone. Resolves to false if that fails. */
  renew(session: HeldSession, id: string): Promise<boolean> {
    if (session.isGone || session.id !== id) return Promise.resolve(!session.isGone);
    let renewal = this.#renewals.get(session);
    if (!renewal) {
      renewal = this.#renew(session, id)
        .then(
          () => true,
          () => false,
        )
        .finally(() => this.#renewals.delete(session));
      this.#renewals.set(session, renewal);
    }
    return renewal;
  }

  /** Stores the current metadata of a session. Saves run one at a time and always write the latest metadata. */
  save(session: HeldSession): Promise<void> {
    const saving = (this.#saving.get(session) ?? Promise.resolve()).then(async () => {
      if (session.isGone) return;
      const later = await this.#options.kept.save(session.toKeep());
      if (later) session.adopt(later);
    });
    this.#saving.set(
      session,
      saving.catch(() => undefined),
    );
    return saving;
  }

  /** Throws if a session is gone, because it must never be sent again. */
  check({ isGone, id, label }: HeldSession, hasBegun = false): void {
    if (isGone) throw new SessionGoneError(id, label, undefined, hasBegun);
  }

  /** Ends sessions that hold expensive resources before the connection closes, except those in which calls still wait. */
  async release(connection: Connection): Promise<void> {
    if (connection !== this.#calls.connection) return;
    const costly = [...this.#live].filter(
      ({ allocates, isGone, waiting }) => allocates && !isGone && waiting.size === 0,
    );
    await Promise.allSettled(costly.map((session) => this.delete(session, PARTING)));
  }

  /** Forgets the sessions after the user signed out. */
  forget(): void {
    for (const session of this.#live) session.end();
    this.streams.close();
  }

  /** Handles a closed connection. The session-scope state of sessions that are not stored ends with it. */
  closed(connection: Connection): void {
    if (connection !== this.#calls.connection) return;
    this.#isOpen = false;
    this.streams.close();
    for (const session of this.#live) {
      if (!session.keeps) this.#options.jar.endSession(connection, session.id).catch(() => undefined);
    }
  }

  async #renew(session: HeldSession, id: string): Promise<void> {
    const { label } = session;
    const meta = await this.#calls.create(label);
    await this.#markDead(id);
    session.replace(meta);
    this.streams.follow(id, session.id);
    this.#options.events.emit('session-ended', { server: redactUrls(this.target), label, why: 'replaced' });
    if (session.keeps) await this.save(session);
  }

  async #end(session: HeldSession, id: string, why: 'gone' | 'deleted'): Promise<void> {
    session.end();
    this.#live.delete(session);
    this.streams.end(id);
    await this.#markDead(id);
    this.#options.events.emit('session-ended', {
      server: redactUrls(this.target),
      label: session.label,
      why,
    });
  }

  async #markDead(id: string): Promise<void> {
    if (this.#gone.size >= MAX_GONE) this.#gone.delete(this.#gone.values().next().value as string);
    this.#gone.add(id);
    if (this.keeps) await this.#options.kept.remove(this.target, id);
    await this.#options.jar.endSession(this.#calls.connection, id);
  }

  async #begin(meta: SessionMeta, options: CreateOptions): Promise<HeldSession> {
    const session = this.#enter(meta, options);
    if (session.keeps) await this.save(session);
    return session;
  }

  #enter(meta: SessionMeta, options: CreateOptions): HeldSession {
    const session = new HeldSession(this, meta, options);
    this.#live.add(session);
    return session;
  }
}

/** Returns when a session ends, as a `Date`, and whether that time has passed. */
export function timesOf(expiresAt: string | undefined): Pick<SessionListing, 'expiresAt' | 'isStale'> {
  const end = expiresAt === undefined ? undefined : new Date(expiresAt);
  return { expiresAt: end, isStale: end !== undefined && end.getTime() <= Date.now() };
}
