import { randomBytes } from 'node:crypto';
import { messageOf, ValiseError } from '../../errors.ts';
import { isObject, type Json, type JsonObject } from '../../json.ts';
import { sha256 } from '../../sha256.ts';
import {
  type Collection,
  collection,
  type Found,
  type Members,
  pack,
  recordsOf,
  unpack,
} from '../../store/kit/collection.ts';
import { withLease } from '../../store/kit/lease.ts';
import type { Store } from '../../store/types.ts';
import type { Era, Params } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import type { ClientEventSource } from '../events.ts';
import { KEPT as KEPT_SESSION, type Kept as KeptSession } from '../sessions/kept.ts';
import type { Returning } from '../sessions/returning.ts';
import { targetKey } from '../target.ts';
import { expiryOf, type Round, readStored } from './round.ts';
import type { PendingRound } from './types.ts';

/** How long a round is kept at most, in seconds. Servers' own limits are far shorter; ours say which, see `expiryOf`. */
const KEPT = 30 * 86_400;

/** How many questions are kept in all, and of one server; a server must not fill its client's store. */
const MAX_PENDING = 1000;
const MAX_OF_SERVER = 100;
/** How large a kept question may be, with its context and its call, as JSON. */
const MAX_BYTES = 1024 * 1024;

/** A call that waits. */
export interface Waiting {
  readonly method: string;
  readonly params?: Params | undefined;
  readonly era?: Era | undefined;
  /** The data-layer session that it was made in, and must go on in. */
  readonly session?: KeptSession | undefined;
}

/** A round as it is kept. */
export interface Kept {
  readonly id: string;
  readonly server: string;
  /** The account that was asked; see `Account`. */
  readonly account: string;
  readonly method: string | undefined;
  readonly params: Params | undefined;
  /** The era that it was asked in; undefined where that is not known. */
  readonly era: Era | undefined;
  readonly session: KeptSession | undefined;
  readonly round: Round;
  readonly since: number;
  /** When the server stops taking answers, in milliseconds since 1970; undefined if it does not say. */
  readonly expiresAt: number | undefined;
  /** Of the entry that it was read from: another process may have put the call's next round in its place since. */
  readonly version: string;
}

/** Keeps the rounds of one principal that wait for answers. */
export class PendingStore {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #records: Collection<Members>;
  readonly #events: ClientEventSource;
  readonly sessions: Returning;
  /** The connections that rounds came on, by their ids. */
  readonly #requesters = new Map<string, Connection>();

  constructor(store: Store, principal: string, sessions: Returning, events: ClientEventSource) {
    this.#store = store;
    this.sessions = sessions;
    this.#events = events;
    this.#prefix = `rounds/pending/${sha256(principal).slice(0, 16)}/`;
    this.#records = collection(store, this.#prefix, recordsOf('pending question'));
  }

  /** A call as it is kept while it waits. */
  waiting(call: Call): Waiting {
    return { ...call.request, era: call.era, session: this.sessions.sessionOf(call) };
  }

  /** Keeps a round, under the id that its call has here already, or under a new one. */
  async keep(
    connection: Connection,
    call: Waiting | undefined,
    round: Round,
    known?: string,
  ): Promise<string> {
    // No dash: people paste it into command lines, where it would be an option.
    const id = known ?? randomBytes(9).toString('hex');
    const { _meta, ...params } = call?.params ?? {};
    const since = Date.now();
    const expiresAt = expiryOf(round);
    const value: JsonObject = {
      server: targetKey(connection.target),
      account: connection.account.name,
      ...(call && { method: call.method, params: params as JsonObject }),
      ...(call?.era && { era: call.era }),
      ...(call?.session && { session: pack(KEPT_SESSION, call.session) }),
      round: JSON.parse(JSON.stringify(round)) as Json,
      since,
      ...(expiresAt !== undefined && { expiresAt }),
    };
    await this.#checkRoom(value, known === undefined);
    const ttl = expiresAt === undefined ? KEPT : Math.min(KEPT, Math.ceil((expiresAt - since) / 1000));
    if (known === undefined) await this.#records.put(id, value, { ttl });
    else await this.#records.update(id, () => value, { ttl });
    this.#requesters.set(id, connection);
    if (call?.session) this.sessions.waits(connection, call.session, id);
    return id;
  }

  /** Throws where a question is too large to be kept, or where too many of its server, or of all, wait already. */
  async #checkRoom(value: JsonObject, isNew: boolean): Promise<void> {
    if (Buffer.byteLength(JSON.stringify(value)) > MAX_BYTES)
      throw tooMuch(`it takes more than ${MAX_BYTES} bytes`);
    if (!isNew) return;
    const { keys } = await this.#store.list(this.#prefix, { limit: MAX_PENDING });
    if (keys.length >= MAX_PENDING) throw tooMuch(`${MAX_PENDING} questions wait for answers`);
    if (keys.length < MAX_OF_SERVER) return;
    const ofServer = (await this.all()).filter(({ server }) => server === value['server']);
    if (ofServer.length >= MAX_OF_SERVER)
      throw tooMuch(`${MAX_OF_SERVER} questions of its server wait for answers`);
  }

  /** Keeps a round, if it can: a store that fails is no reason not to ask. Undefined where it is not kept. */
  async tryKeep(
    connection: Connection,
    call: Waiting | undefined,
    round: Round,
    id?: string,
  ): Promise<string | undefined> {
    try {
      return await this.keep(connection, call, round, id);
    } catch (error) {
      const isFull = error instanceof ValiseError && error.code === 'too-many-pending';
      const next = isFull
        ? 'Answer or drop what waits: valise.pending.list(), valise.pending.drop(id).'
        : undefined;
      this.#warn('A question could not be kept, and is lost if this process ends now', error, next);
      return id;
    }
  }

  /** Drops a round that is over, if it can: a store that fails is no reason to lose the answer to its call. */
  async tryDrop(id: string, version?: string): Promise<void> {
    try {
      await this.drop(id, version);
    } catch (error) {
      this.#warn('A question that is over could not be dropped, and is still listed', error);
    }
  }

  /** Too many wait: that this one was answered will not be noticed. */
  unwatched(id: string): void {
    this.#events.emit('warning', {
      code: 'limit-reached',
      what: `Too many questions wait for answers: ${id} will still be listed after it was answered.`,
      next: 'Answer or drop what waits: valise.pending.list(), valise.pending.drop(id).',
    });
  }

  #warn(what: string, error: unknown, next = 'See to it that the store can be reached.'): void {
    const reason = error instanceof ValiseError ? error.what : messageOf(error);
    this.#events.emit('warning', {
      code: 'question-not-kept',
      what: `${what}: ${reason}`,
      next,
    });
  }

  /** The connection that a round came on, as long as it is open. */
  requesterOf(id: string): Connection | undefined {
    return this.#requesters.get(id);
  }

  /** The connection is gone; another one to the same server may bring the answers. */
  left(connection: Connection): void {
    for (const [id, requester] of this.#requesters) if (requester === connection) this.#requesters.delete(id);
  }

  async find(id: string): Promise<Kept | undefined> {
    const found = await this.#records.get(id);
    return found && this.#unexpired(read(id, found));
  }

  /** Drops a round that has expired by the clock of this process; the store's may be another. */
  async #unexpired(kept: Kept | undefined): Promise<Kept | undefined> {
    if (kept?.expiresAt === undefined || kept.expiresAt > Date.now()) return kept;
    await this.tryDrop(kept.id, kept.version);
    return undefined;
  }

  async all(): Promise<Kept[]> {
    const kept: Kept[] = [];
    const newer = ({ what, next = '' }: ValiseError): void =>
      this.#events.emit('warning', { code: 'store-newer', what, next });
    for await (const page of this.#records.pages('', newer)) {
      for (const [id, found] of page) {
        const one = await this.#unexpired(read(id, found));
        if (one) kept.push(one);
      }
    }
    return kept.sort((a, b) => a.since - b.since);
  }

  /** Drops a round; with a version, only where it is still that one. */
  drop(id: string, version?: string): Promise<boolean> {
    this.sessions.over(id);
    this.#requesters.delete(id);
    return this.#records.delete(id, version === undefined ? {} : { ifVersion: version });
  }

  /** Drops the pending questions of a server that the user signed out of. Returns how many there were. */
  async forget(server: string): Promise<number> {
    const own = (await this.all()).filter((each) => each.server === server);
    await Promise.all(own.map(({ id }) => this.drop(id)));
    return own.length;
  }

  /** Lets one process at a time answer a round. */
  answering<T>(id: string, work: () => Promise<T>): Promise<T> {
    const busy = (): never => {
      throw beingAnswered(id);
    };
    return withLease(this.#store, `rounds/answering/${id}`, work, { wait: 0, busy });
  }
}

export function beingAnswered(id: string): ValiseError {
  return new ValiseError('answered-elsewhere', `The pending round "${id}" is being answered already.`, {
    next: 'Wait for it, then list what is pending.',
  });
}

function tooMuch(why: string): ValiseError {
  return new ValiseError('too-many-pending', `A question is not kept: ${why}.`, {
    next: 'Answer or drop what waits.',
  });
}

function read(id: string, { value, version }: Found<Members>): Kept | undefined {
  if (!value) return undefined;
  const round = readStored(value['round']);
  if (!round || typeof value['server'] !== 'string' || typeof value['since'] !== 'number') return undefined;
  const { method, params } = value;
  return {
    id,
    server: value['server'],
    account: typeof value['account'] === 'string' ? value['account'] : '',
    method: typeof method === 'string' ? method : undefined,
    params: isObject(params) ? params : undefined,
    era: eraOf(round, value['era']),
    session: sessionIn(value['session'], value['server']),
    round,
    since: value['since'],
    expiresAt: typeof value['expiresAt'] === 'number' ? value['expiresAt'] : undefined,
    version,
  };
}

/** The session that a call was made in; a store is a file that others can write, so it must be one of the same server. */
function sessionIn(value: unknown, server: string): KeptSession | undefined {
  const session = isObject(value) ? unpack(KEPT_SESSION, value as JsonObject) : undefined;
  return session?.target === server ? session : undefined;
}

/** Only the form of 2026-07-28 is used in both eras. */
function eraOf({ form }: Round, kept: unknown): Era | undefined {
  if (form !== 'input') return 'legacy';
  return kept === 'legacy' || kept === 'modern' ? kept : undefined;
}

/** What the host sees of a round: everything but its context. */
export function shown(kept: Omit<Kept, 'version'>): PendingRound {
  const { id, server, method, params, era, session, round, since, expiresAt } = kept;
  return {
    id,
    server,
    call: method === undefined ? undefined : { method, ...(params && { params }) },
    ...(era && { era }),
    ...(session && { session: { id: session.id, label: session.label } }),
    questions: round.questions,
    since: new Date(since),
    ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }),
  };
}
