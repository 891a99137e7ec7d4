import { randomBytes } from 'node:crypto';
import { messageOf, ValiseError } from '../../core/errors.ts';
import { isObject, type JsonObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
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
import { type Codec, codecNamed, SESSIONFUL } from '../../wire/codec.ts';
import type { Params } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import type { ClientEventSource } from '../events.ts';
import { targetKey } from '../identity/target.ts';
import type { Returning } from '../sessions/middleware.ts';
import { SESSION_RECORD, type SessionRecord } from '../sessions/session.ts';
import { beingAnswered } from './errors.ts';
import { expiryOf, type Questions, storedQuestions, writeQuestions } from './questions.ts';
import type { PendingRound } from './types.ts';

/** The maximum time a question is stored, in seconds. Servers' own limits are far shorter; ours announce theirs (see `expiryOf`). */
const MAX_TTL = 30 * 86_400;

/** The maximum number of stored questions, in total and per server, so that a server cannot fill its client's store. */
const MAX_PENDING = 1000;
const MAX_OF_SERVER = 100;
/** The maximum size of a stored question with its context and its call, as JSON. */
const MAX_BYTES = 1024 * 1024;

/** A call that waits for answers. */
export interface WaitingCall {
  readonly method: string;
  readonly params?: Params | undefined;
  readonly codec?: Codec | undefined;
  /** The data-layer session in which the call was made and must continue. */
  readonly session?: SessionRecord | undefined;
}

/** A pending question as stored, with its call. */
export interface PendingRecord {
  readonly id: string;
  readonly server: string;
  /** The account that was asked; see `Account`. */
  readonly account: string;
  readonly method: string | undefined;
  readonly params: Params | undefined;
  /** The codec of the call. Undefined if unknown. */
  readonly codec: Codec | undefined;
  readonly session: SessionRecord | undefined;
  readonly asked: Questions;
  readonly since: number;
  /** When the server stops accepting answers, in milliseconds since 1970. Undefined if it does not say. */
  readonly expiresAt: number | undefined;
  /** The version of the store entry it was read from. Another process may since have replaced it with the call's next question. */
  readonly version: string;
}

/** Stores the pending questions of one principal. */
export class PendingStore {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #records: Collection<Members>;
  readonly #events: ClientEventSource;
  readonly sessions: Returning;
  /** The connections that the questions came on, by id. */
  readonly #requesters = new Map<string, Connection>();

  constructor(store: Store, principal: string, sessions: Returning, events: ClientEventSource) {
    this.#store = store;
    this.sessions = sessions;
    this.#events = events;
    this.#prefix = `rounds/pending/${sha256(principal).slice(0, 16)}/`;
    this.#records = collection(store, this.#prefix, recordsOf('pending question'));
  }

  /** Returns the form in which a call is stored while it waits. */
  waiting(call: Call): WaitingCall {
    return { ...call.request, codec: call.codec, session: this.sessions.sessionOf(call) };
  }

  /** Stores questions, under the id their call already has here or under a new one. */
  async keep(
    connection: Connection,
    call: WaitingCall | undefined,
    asked: Questions,
    known?: string,
  ): Promise<string> {
    // Hex has no dashes. People paste the id into command lines, where a leading dash would make it an option.
    const id = known ?? randomBytes(9).toString('hex');
    const { _meta, ...params } = call?.params ?? {};
    const since = Date.now();
    const expiresAt = expiryOf(asked);
    const value: JsonObject = {
      server: targetKey(connection.target),
      account: connection.account.name,
      ...(call && { method: call.method, params: params as JsonObject }),
      ...(call?.codec && { era: call.codec.era }),
      ...(call?.session && { session: pack(SESSION_RECORD, call.session) }),
      round: writeQuestions(asked),
      since,
      ...(expiresAt !== undefined && { expiresAt }),
    };
    await this.#checkRoom(value, known === undefined);
    const ttl = expiresAt === undefined ? MAX_TTL : Math.min(MAX_TTL, Math.ceil((expiresAt - since) / 1000));
    if (known === undefined) await this.#records.put(id, value, { ttl });
    else await this.#records.update(id, () => value, { ttl });
    this.#requesters.set(id, connection);
    if (call?.session) this.sessions.waits(connection, call.session, id);
    return id;
  }

  /** Throws if a question is too large to store, or if too many already wait, from its server or in total. */
  async #checkRoom(value: JsonObject, isNew: boolean): Promise<void> {
    if (Buffer.byteLength(JSON.stringify(value)) > MAX_BYTES)
      throw tooMuch(`it takes more than ${MAX_BYTES} bytes`);
    if (!isNew) return;
    const { keys } = await this.#store.list(this.#prefix, { limit: MAX_PENDING });
    if (keys.length >= MAX_PENDING) throw tooMuch(`${MAX_PENDING} questions are pending`);
    if (keys.length < MAX_OF_SERVER) return;
    const ofServer = (await this.all()).filter(({ server }) => server === value['server']);
    if (ofServer.length >= MAX_OF_SERVER)
      throw tooMuch(`${MAX_OF_SERVER} questions of its server are pending`);
  }

  /** Stores questions if possible. A failing store is no reason not to ask. Returns undefined if new ones are not stored. */
  async tryKeep(
    connection: Connection,
    call: WaitingCall | undefined,
    asked: Questions,
    id?: string,
  ): Promise<string | undefined> {
    try {
      return await this.keep(connection, call, asked, id);
    } catch (error) {
      const isFull = error instanceof ValiseError && error.code === 'limit-reached';
      const next = isFull
        ? 'Answer or drop pending questions: valise.pending.list(), valise.pending.drop(id).'
        : undefined;
      this.#warn('A question could not be stored and will be gone when this process exits', error, next);
      return id;
    }
  }

  /** Drops a question that is over if possible. A failing store is no reason to lose the result of its call. */
  async tryDrop(id: string, version?: string): Promise<void> {
    try {
      await this.drop(id, version);
    } catch (error) {
      this.#warn('A question that was answered could not be dropped and is still listed', error);
    }
  }

  /** Warns that too many questions wait, so that answering this one will not be noticed. */
  unwatched(id: string): void {
    this.#events.emit('warning', {
      code: 'limit-reached',
      what: `Too many questions are pending: ${id} will still be listed after it is answered.`,
      next: 'Answer or drop pending questions: valise.pending.list(), valise.pending.drop(id).',
    });
  }

  #warn(what: string, error: unknown, next = 'Check that the store is reachable.'): void {
    const reason = error instanceof ValiseError ? error.what : messageOf(error);
    this.#events.emit('warning', {
      code: 'question-not-kept',
      what: `${what}: ${reason}`,
      next,
    });
  }

  /** Returns the connection that a question came on, while it is open. */
  requesterOf(id: string): Connection | undefined {
    return this.#requesters.get(id);
  }

  /** Forgets a closed connection. Another connection to the same server may deliver the answers. */
  left(connection: Connection): void {
    for (const [id, requester] of this.#requesters) if (requester === connection) this.#requesters.delete(id);
  }

  async find(id: string): Promise<PendingRecord | undefined> {
    const found = await this.#records.get(id);
    return found && this.#unexpired(read(id, found));
  }

  /** Drops a question that has expired by this process's clock, which may differ from the store's. */
  async #unexpired(record: PendingRecord | undefined): Promise<PendingRecord | undefined> {
    if (record?.expiresAt === undefined || record.expiresAt > Date.now()) return record;
    await this.tryDrop(record.id, record.version);
    return undefined;
  }

  /** Returns the number of pending questions. */
  async count(): Promise<number> {
    return (await this.all()).length;
  }

  async all(): Promise<PendingRecord[]> {
    const all: PendingRecord[] = [];
    const newer = ({ what, next = '' }: ValiseError): void =>
      this.#events.emit('warning', { code: 'store-newer', what, next });
    for await (const page of this.#records.pages('', newer)) {
      for (const [id, found] of page) {
        const one = await this.#unexpired(read(id, found));
        if (one) all.push(one);
      }
    }
    return all.sort((a, b) => a.since - b.since);
  }

  /** Drops a question. With a version, drops it only if it still has that version. */
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

  /** Ensures that only one process at a time answers a question. */
  answering<T>(id: string, work: () => Promise<T>): Promise<T> {
    const busy = (): never => {
      throw beingAnswered(id);
    };
    return withLease(this.#store, `rounds/answering/${id}`, work, { wait: 0, busy });
  }
}

function tooMuch(why: string): ValiseError {
  return new ValiseError('limit-reached', `A question is not stored: ${why}.`, {
    next: 'Answer or drop pending questions.',
  });
}

function read(id: string, { value, version }: Found<Members>): PendingRecord | undefined {
  if (!value) return undefined;
  const asked = storedQuestions(value['round']);
  if (!asked || typeof value['server'] !== 'string' || typeof value['since'] !== 'number') return undefined;
  const { method, params } = value;
  return {
    id,
    server: value['server'],
    account: typeof value['account'] === 'string' ? value['account'] : '',
    method: typeof method === 'string' ? method : undefined,
    params: isObject(params) ? params : undefined,
    // Only the form of 2026-07-28 is used in both eras.
    codec: asked.carrier === 'input' ? codecNamed(value['era']) : SESSIONFUL,
    session: sessionIn(value['session'], value['server']),
    asked,
    since: value['since'],
    expiresAt: typeof value['expiresAt'] === 'number' ? value['expiresAt'] : undefined,
    version,
  };
}

/** Reads the session of a call. Others can write the store's file, so the session must belong to the same server. */
function sessionIn(value: unknown, server: string): SessionRecord | undefined {
  const session = isObject(value) ? unpack(SESSION_RECORD, value as JsonObject) : undefined;
  return session?.target === server ? session : undefined;
}

/** Returns the host's view of a pending question: everything except its context. */
export function shown(record: Omit<PendingRecord, 'version'>): PendingRound {
  const { id, server, method, params, codec, session, asked, since, expiresAt } = record;
  return {
    id,
    server,
    call: method === undefined ? undefined : { method, ...(params && { params }) },
    ...(codec && { era: codec.era }),
    ...(session && { session: { id: session.id, label: session.label } }),
    questions: asked.questions,
    since: new Date(since),
    ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }),
  };
}
