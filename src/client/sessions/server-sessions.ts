import { checkArgument, checkOptions, FLAG, type Taken, type TakenBy } from '../../core/options.ts';
import { redactUrls } from '../../core/redact-urls.ts';
import { MAX_LABEL, type SessionMeta } from '../../wire/index.ts';
import type { Connection } from '../connection.ts';
import type { ClientEventSource } from '../events.ts';
import type { Account } from '../identity/account.ts';
import { targetKey } from '../identity/target.ts';
import type { JarPart } from '../jar/middleware.ts';
import { isUnknownMethod, SessionGoneError, sessionErrorIn } from './errors.ts';
import { Streams } from './notifications.ts';
import { explain, SessionRequests } from './requests.ts';
import type { SessionRecord, SessionRecords } from './session.ts';
import { OpenSession, sentOf } from './session.ts';
import type { CreateOptions, SessionBehaviour, SessionListing } from './types.ts';

const LABEL: Taken = [
  `a text of 1 to ${MAX_LABEL} characters`,
  (value) => typeof value === 'string' && value.length > 0 && value.length <= MAX_LABEL,
];

const BEHAVIOUR: TakenBy<SessionBehaviour> = {
  ordering: ["'parallel' or 'serial'", (value) => value === 'parallel' || value === 'serial'],
  onGone: ["'throw' or 'recreate'", (value) => value === 'throw' || value === 'recreate'],
};

const CREATE: TakenBy<CreateOptions> = { ...BEHAVIOUR, label: LABEL, keep: FLAG };

/** What the sessions of all servers share. */
export interface SessionsOptions {
  readonly records: SessionRecords;
  readonly events: ClientEventSource;
  readonly jar: Pick<JarPart, 'endSession'>;
}

const MAX_GONE = 10_000;
/** How long a closing client waits for its server, in seconds. */
const CLOSE_TIMEOUT = 5;

/** The sessions with one server, over one client's connection. They are never sent to another server or for another user. */
export class ServerSessions {
  readonly target: string;
  /** Whether its sessions may be stored. False if the server is unknown, because a stored session could reach another one. */
  readonly mayStore: boolean;
  readonly streams = new Streams(() => this.#requests);
  readonly #options: SessionsOptions;
  readonly #open = new Set<OpenSession>();
  readonly #gone = new Set<string>();
  readonly #saving = new WeakMap<OpenSession, Promise<void>>();
  readonly #renewals = new WeakMap<OpenSession, Promise<boolean>>();
  #client: object;
  #requests: SessionRequests;
  #isConnected = true;

  constructor(connection: Connection, client: object, options: SessionsOptions) {
    this.#client = client;
    this.#requests = new SessionRequests(connection, client);
    this.#options = options;
    this.target = targetKey(connection.target);
    this.mayStore = connection.target.kind !== 'unknown';
  }

  /** The account that its sessions belong to. */
  get account(): Account {
    return this.#requests.connection.account;
  }

  /** Whether these are the sessions of that client. */
  isOf(client: object): boolean {
    return client === this.#client;
  }

  /** Whether its connection is open. Once it has closed, the next client of the server takes over these sessions. */
  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** Takes over the connection of a newly connected client. */
  moved(connection: Connection, client: object): void {
    this.#client = client;
    this.#requests = new SessionRequests(connection, client);
    this.#isConnected = true;
  }

  async create(options: CreateOptions = {}): Promise<OpenSession> {
    checkOptions('sessions.create', options, CREATE);
    return this.#begin(await this.#requests.create(options.label), options);
  }

  async fork(parent: OpenSession, options: CreateOptions): Promise<OpenSession> {
    checkOptions('session.fork', options, CREATE);
    parent.check();
    try {
      return await this.#begin(await this.#requests.fork(parent.sent(), options.label), options);
    } catch (error) {
      if (sessionErrorIn(error)?.kind !== 'not-found') throw error;
      const { id } = parent;
      await this.gone(parent, id);
      throw new SessionGoneError(id, parent.label, error);
    }
  }

  async named(label: string, behaviour: SessionBehaviour = {}): Promise<OpenSession> {
    checkArgument('sessions.named()', label, LABEL);
    checkOptions('sessions.named', behaviour, BEHAVIOUR);
    const find = async (): Promise<OpenSession | undefined> => {
      for (const session of this.#open) if (session.label === label && !session.isGone) return session;
      const found = (await this.#stored()).find((each) => each.label === label && !this.#gone.has(each.id));
      return found && this.#enter(found, behaviour);
    };
    const make = async (): Promise<OpenSession> => (await find()) ?? this.create({ ...behaviour, label });
    return (
      (await find()) ?? (this.mayStore ? this.#options.records.withLabel(this.target, label, make) : make())
    );
  }

  /** Resumes a session, or recovers it from the server's own copy. Only `recover` can bring back a session that was gone. */
  async resume(
    id: string,
    behaviour: SessionBehaviour = {},
    verb: 'resume' | 'recover' = 'resume',
  ): Promise<OpenSession> {
    checkOptions(`sessions.${verb}`, behaviour, BEHAVIOUR);
    const open = this.find(id);
    if (open) return open;
    if (verb === 'resume' && this.#gone.has(id)) throw new SessionGoneError(id, undefined);
    const stored = await this.#storedAs(id);
    const options: CreateOptions = { ...behaviour, label: stored?.label, keep: true };
    try {
      const resumed = await this.#requests.resume(stored ? sentOf(stored) : { sessionId: id }, verb);
      this.#gone.delete(id);
      return await this.#begin(resumed, options);
    } catch (error) {
      if (stored && verb === 'resume' && isUnknownMethod(error)) return this.#enter(stored, options);
      if (sessionErrorIn(error)?.kind !== 'not-found') return explain(error);
      await this.#markGone(id);
      throw new SessionGoneError(id, stored?.label, error);
    }
  }

  /** Returns the open session with that id. */
  find(id: string): OpenSession | undefined {
    for (const session of this.#open) if (session.id === id && !session.isGone) return session;
    return undefined;
  }

  /** Returns to the session of a call that has waited, as it is stored now or as the call last knew it. */
  async reenter(known: SessionRecord): Promise<OpenSession> {
    const { id, label } = known;
    const open = this.find(id);
    if (open) return open;
    if (this.#gone.has(id)) throw new SessionGoneError(id, label, undefined, true);
    const stored = await this.#storedAs(id);
    return this.find(id) ?? this.#enter({ ...(stored ?? known), label }, { keep: stored !== undefined });
  }

  async list(): Promise<readonly SessionListing[]> {
    const stored = await this.#stored();
    const known = new Map(stored.map((each) => [each.id, each]));
    const listed = new Map((await this.#requests.list())?.map((each) => [each.id, each]));
    return [...listed.values(), ...stored.filter(({ id }) => !listed.has(id))]
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
    const open = this.find(id);
    const stored = await this.#storedAs(id);
    const { state = stored?.state } = open?.sent() ?? {};
    const sent = { sessionId: id, ...(state !== undefined && { state }) };
    const isKnown = await this.#requests.delete(sent).then(
      () => true,
      (error: unknown) => {
        if (sessionErrorIn(error)?.kind !== 'not-found') throw error;
        return false;
      },
    );
    if (open) await this.#end(open, id, 'deleted');
    else await this.#markGone(id);
    return isKnown;
  }

  async delete(session: OpenSession, timeout?: number): Promise<void> {
    if (session.isGone) return;
    const { id } = session;
    try {
      await this.#requests.delete(session.sent(), timeout);
    } catch (error) {
      if (sessionErrorIn(error)?.kind !== 'not-found') throw error;
    }
    await this.#end(session, id, 'deleted');
  }

  /** Ends a session that the server no longer knows. */
  async gone(session: OpenSession, id: string): Promise<void> {
    if (session.id !== id || session.isGone) return;
    await this.#end(session, id, 'gone');
  }

  /** Replaces a session that is gone with a new one, once for all calls that find it gone. Resolves to false if that fails. */
  renew(session: OpenSession, id: string): Promise<boolean> {
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
  save(session: OpenSession): Promise<void> {
    const saving = (this.#saving.get(session) ?? Promise.resolve()).then(async () => {
      if (session.isGone) return;
      const later = await this.#options.records.save(session.record);
      if (later) session.adopt(later);
    });
    this.#saving.set(
      session,
      saving.catch(() => undefined),
    );
    return saving;
  }

  /** Ends sessions with expensive resources before the connection closes, except those in which calls still wait. */
  async release(connection: Connection): Promise<void> {
    if (connection !== this.#requests.connection) return;
    const costly = [...this.#open].filter(
      ({ allocates, isGone, pending }) => allocates && !isGone && pending.size === 0,
    );
    await Promise.allSettled(costly.map((session) => this.delete(session, CLOSE_TIMEOUT)));
  }

  /** Forgets the sessions after the user signed out. */
  forget(): void {
    for (const session of this.#open) session.end();
    this.streams.close();
  }

  /** Handles a closed connection. The session-scope state of sessions that are not stored ends with it. */
  closed(connection: Connection): void {
    if (connection !== this.#requests.connection) return;
    this.#isConnected = false;
    this.streams.close();
    for (const session of this.#open) {
      if (!session.isStored) this.#options.jar.endSession(connection, session.id).catch(() => undefined);
    }
  }

  async #renew(session: OpenSession, id: string): Promise<void> {
    const { label } = session;
    const meta = await this.#requests.create(label);
    await this.#markGone(id);
    session.replace(this.#recordOf(meta, label));
    this.streams.follow(id, session.id);
    this.#options.events.emit('session-ended', {
      server: redactUrls(this.target),
      label,
      reason: 'replaced',
    });
    if (session.isStored) await this.save(session);
  }

  async #end(session: OpenSession, id: string, reason: 'gone' | 'deleted'): Promise<void> {
    session.end();
    this.#open.delete(session);
    this.streams.end(id);
    await this.#markGone(id);
    this.#options.events.emit('session-ended', {
      server: redactUrls(this.target),
      label: session.label,
      reason,
    });
  }

  async #markGone(id: string): Promise<void> {
    if (this.#gone.size >= MAX_GONE) this.#gone.delete(this.#gone.values().next().value as string);
    this.#gone.add(id);
    if (this.mayStore) await this.#options.records.remove(this.target, id);
    await this.#options.jar.endSession(this.#requests.connection, id);
  }

  async #begin(meta: SessionMeta, options: CreateOptions): Promise<OpenSession> {
    const session = this.#enter(this.#recordOf(meta, options.label), options);
    if (session.isStored) await this.save(session);
    return session;
  }

  #enter(record: SessionRecord, options: CreateOptions): OpenSession {
    const session = new OpenSession(this, record, options);
    this.#open.add(session);
    return session;
  }

  #recordOf({ sessionId: id, state, seq, expiresAt }: SessionMeta, label: string | undefined): SessionRecord {
    const { target, account } = this;
    return { target, account: account.name, id, label, state, seq, expiresAt, usedAt: Date.now() };
  }

  async #stored(): Promise<readonly SessionRecord[]> {
    return this.mayStore ? this.#options.records.list(this.target, this.account) : [];
  }

  async #storedAs(id: string): Promise<SessionRecord | undefined> {
    return this.mayStore ? this.#options.records.get(this.target, id, this.account) : undefined;
  }
}

/** Returns when a session ends, as a `Date`, and whether that time has passed. */
export function timesOf(expiresAt: string | undefined): Pick<SessionListing, 'expiresAt' | 'isStale'> {
  const end = expiresAt === undefined ? undefined : new Date(expiresAt);
  return { expiresAt: end, isStale: end !== undefined && end.getTime() <= Date.now() };
}
