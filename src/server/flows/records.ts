import type { Json, JsonObject } from '../../core/json.ts';
import { SealError, type Sealer } from '../../seal/index.ts';
import { type Members, pack, recordsOf, type Schema, unpack } from '../../store/kit/collection.ts';
import { type Updatable, update } from '../../store/kit/update.ts';
import { memoryStore } from '../../store/memory/store.ts';
import type { Entry, Lease, PutOptions, Store } from '../../store/types.ts';
import type { ServerContext } from '../context.ts';
import type { ServerEvents } from '../events.ts';
import { type Caller, type Exceeded, Quota } from '../quota.ts';
import { FlowError } from './errors.ts';
import type { RecordLimits } from './options.ts';

/** A record that was found. */
export interface Found {
  /** Undefined if someone other than this server wrote the record. Such a record is not trusted. */
  readonly value: Members | undefined;
  readonly version: string;
}

/** Options for writing a record. */
export interface RecordOptions extends Pick<PutOptions, 'ifAbsent' | 'ifVersion' | 'durable'> {
  /** Lifetime in seconds. */
  readonly ttl: number;
  /** The caller whose quota the record counts toward. */
  readonly caller: Caller;
}

/**
 * Lease times for an answer or an effect, which only one instance may process, in seconds.
 *
 * An instance that died blocks others for one `ttl`.
 */
export const FLOW_LEASE = { ttl: 15, wait: 20 };

/** What tells the records of one family from those of another. */
export interface RecordKind {
  /** The purpose of the records' seals. */
  readonly purpose: string;
  readonly family: ServerEvents['rejected']['family'];
  /** Names a record in events. */
  readonly what: string;
  /** Returns the error for a record that exceeds a limit. */
  readonly refusal: (reason: Exceeded | 'record-bytes', size: number, most: number) => Error;
}

const FLOWS: RecordKind = {
  purpose: 'flow-record',
  family: 'flows',
  what: 'a record of a round',
  refusal: (reason, size, most) => (reason === 'record-bytes' ? tooLarge(size, most) : full()),
};
/**
 * Part of every record's seal. It never changes.
 *
 * The version of a record is in the sealed value, so that an older release can read it.
 */
const FORM = 1;
/** Returns the purpose and binding of the seal of a flow's record. */
export function flowSeal(key: string): { readonly purpose: string; readonly bind: Json } {
  return { purpose: FLOWS.purpose, bind: [key, FORM] };
}
/** How much longer than its entry a record's seal is valid, in seconds, so that it outlasts the entry even if clocks differ. */
const SLACK = 300;

/**
 * The records that flows keep between rounds: contexts, outcomes, marks of answered rounds and of effects. The ledger of
 * calls that may be repeated keeps its records here too.
 *
 * In the store, each record is sealed together with its key and the schema version. Whoever can write to the store can delete a
 * record or restore an older version of it, but can neither change it nor move it to another key. Without a store, records are
 * in memory.
 */
export class FlowRecords {
  /** Whether all instances share the records, in a store. */
  readonly isShared: boolean;
  readonly #store: Store;
  readonly #sealer: Sealer | undefined;
  readonly #quota: Quota;
  readonly #context: ServerContext;
  readonly #kind: RecordKind;
  /** The longest record, in bytes. */
  readonly most: number;

  constructor(
    context: ServerContext,
    { recordBytes, perCaller, total }: RecordLimits,
    kind: RecordKind = FLOWS,
  ) {
    const { store } = context;
    this.#kind = kind;
    this.#context = context;
    this.isShared = store !== undefined;
    this.#store = store ?? memoryStore();
    this.#sealer = store && context.sealer;
    this.most = recordBytes;
    this.#quota = new Quota(
      {
        perCaller: { count: perCaller.records, bytes: perCaller.bytes },
        total: { count: total.records, bytes: total.bytes },
        anonymousPart: 0.5,
      },
      // A store drops expired entries by itself. In memory they would stay until somebody reads them.
      store ? undefined : (key) => void this.#store.get(key),
    );
  }

  /** Reads a record. Throws `store-newer` if a later release wrote it. */
  async get(key: string): Promise<Found | undefined> {
    const entry = await this.#store.get(key);
    if (!entry) return undefined;
    const value = this.#sealer ? this.#open(key, entry.value) : entry.value;
    return { value: value === undefined ? undefined : unpack(schemaOf(key), value), version: entry.version };
  }

  /** Writes what `change` returns for a record that probably does not exist yet. Returns whether something was written. */
  async update(
    key: string,
    change: (found: Members | undefined) => object | undefined,
    options: Pick<RecordOptions, 'ttl' | 'caller'>,
  ): Promise<boolean> {
    const records: Updatable = {
      get: (name) => this.get(name) as Promise<Entry | undefined>,
      put: (name, value, conditions) => this.put(name, value as JsonObject, { ...conditions, ...options }),
      delete: (name, conditions) => this.delete(name, conditions),
    };
    const next = (entry: Entry | undefined): Json | undefined =>
      change(entry?.value as Members | undefined) as Json | undefined;
    return typeof (await update(records, key, next, { seen: { entry: undefined } })) === 'string';
  }

  /** Writes a record. Returns undefined if a condition did not hold. Throws `FlowError` if the record exceeds a limit. */
  async put(
    key: string,
    value: object,
    { ttl, caller, ...conditions }: RecordOptions,
  ): Promise<string | undefined> {
    const size = Buffer.byteLength(JSON.stringify(value));
    if (size > this.most) throw this.#refusal('record-bytes', size);
    const taken = this.#quota.take(caller, { key, bytes: size, ttl });
    if (typeof taken === 'string') throw this.#refusal(taken, size);
    const record = pack(schemaOf(key), value as Members);
    const kept = this.#sealer
      ? this.#sealer.seal(record, { purpose: this.#kind.purpose, bind: [key, FORM], ttl: ttl + SLACK })
      : record;
    const version = await this.#store.put(key, kept, { ttl, unlisted: true, ...conditions });
    // Nothing was written, so the existing record still counts.
    if (version === undefined) taken();
    return version;
  }

  async delete(key: string, options?: { readonly ifVersion?: string }): Promise<boolean> {
    this.#quota.release(key);
    return this.#store.delete(key, options);
  }

  lease(key: string, ttl: number): Promise<Lease | undefined> {
    return this.#store.lease(key, ttl);
  }

  #open(key: string, kept: Json): Json | undefined {
    try {
      if (typeof kept !== 'string') throw new SealError('malformed');
      return this.#sealer?.open(kept, { purpose: this.#kind.purpose, bind: [key, FORM] });
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      this.#context.events.emit('rejected', {
        family: this.#kind.family,
        what: 'a record in the store',
        reason: error.reason,
      });
      return undefined;
    }
  }

  #refusal(reason: Exceeded | 'record-bytes', size: number): Error {
    const { family, what, refusal } = this.#kind;
    this.#context.events.emit('rejected', { family, what, reason });
    return refusal(reason, size, this.most);
  }
}

function tooLarge(size: number, most: number): FlowError {
  return new FlowError(
    'too-large',
    `What this flow has to remember is ${size} bytes long, and no more than ${most} may be kept.`,
    {
      next: 'Ask for less, return less from flow.once() and from the handler, or raise flows.limits.recordBytes.',
    },
  );
}

/** The kinds of records, by the second part of their keys. */
const SCHEMAS: Readonly<Record<string, Schema<Members>>> = {
  kept: recordsOf('flow context'),
  turn: recordsOf('answer mark'),
  once: recordsOf('once mark'),
  mail: recordsOf('flow outcome'),
  call: recordsOf('call record'),
};
const OTHERS = recordsOf('flow record');

function schemaOf(key: string): Schema<Members> {
  return SCHEMAS[key.split('/', 2)[1] ?? ''] ?? OTHERS;
}

/** Returns the error for a caller or server without room for another open question. */
export function full(): FlowError {
  return new FlowError('limit-reached', 'Too much is open on this server.', {
    next: 'Answer the questions that are open, or try again in a few minutes.',
  });
}
