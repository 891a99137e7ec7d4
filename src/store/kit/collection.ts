import { ValiseError } from '../../core/errors.ts';
import { isObject, type Json, type JsonObject } from '../../core/json.ts';
import { entryPages } from '../page.ts';
import type { Entry, PutOptions, Store } from '../types.ts';
import { type UpdateOptions, update } from './update.ts';

/**
 * How the records of one kind are stored. The member `format` of each record is its version; a record without one has
 * version 1.
 */
export interface Schema<Value> {
  /** The name of such a record in messages, for example "session record". */
  readonly kind: string;
  /** The version that this release writes. Increase it if an older release would misread or damage the new records. */
  readonly version: number;
  /** Converts a record of version `from` to the next version. Required once `version` is above 1. */
  readonly migrate?: (value: Json, from: number) => Json;
  /** Validates the members of a record. Returns undefined if it is damaged. */
  read(record: Members): Value | undefined;
  /** Returns the members to store. Defaults to the members of the value as JSON. */
  readonly write?: (value: Value) => JsonObject;
}

/** A record and its entry. */
export interface Found<Value> {
  /** Undefined if the entry is damaged. It may be replaced. */
  readonly value: Value | undefined;
  /** The version for `ifVersion`. */
  readonly version: string;
  readonly expiresAt?: number;
}

/** The records of one kind under one prefix of a store. */
export interface Collection<Value> {
  /** Returns a record. Throws `store-newer` if a later release wrote it. */
  get(id: string): Promise<Found<Value> | undefined>;
  /**
   * Writes a record without reading it first. Use it for a new id or with a condition, because it would replace a newer
   * record.
   */
  put(id: string, value: Value, options?: PutOptions): Promise<string | undefined>;
  /** Like `update` of the kit, for records. Throws `store-newer` for a newer record and leaves it unchanged. */
  update(
    id: string,
    change: (found: Found<Value> | undefined) => Value | null | undefined | Promise<Value | null | undefined>,
    options?: CollectionUpdateOptions<Value>,
  ): Promise<string | null | undefined>;
  delete(id: string, options?: { readonly ifVersion?: string }): Promise<boolean>;
  /** Yields all records whose id starts with `under`, page by page. Newer ones are left out and reported to `newer`. */
  pages(
    under: string,
    newer?: (error: ValiseError) => void,
  ): AsyncGenerator<readonly (readonly [id: string, found: Found<Value>])[]>;
}

/** Options for updating a record. */
export interface CollectionUpdateOptions<Value> extends Omit<UpdateOptions, 'seen'> {
  /** The record as it was last read, so that the first attempt does not have to read it. */
  readonly seen?: { readonly found: Found<Value> | undefined } | undefined;
}

/** The hints with which every record of a collection is written. */
export type CollectionHints = Pick<PutOptions, 'unlisted' | 'durable'>;

/**
 * Creates a collection of typed records with a schema version, under a prefix of a store. `pages` may omit the records
 * of an `unlisted` one.
 */
export function collection<Value extends object>(
  store: Pick<Store, 'get' | 'put' | 'delete' | 'list' | 'entries'>,
  prefix: string,
  schema: Schema<Value>,
  hints: CollectionHints = {},
): Collection<Value> {
  return {
    get: (id) => store.get(prefix + id).then((entry) => entry && foundIn(schema, entry)),
    put: (id, value, options) => store.put(prefix + id, pack(schema, value), { ...hints, ...options }),
    update(id, change, { seen, ...options } = {}) {
      const first = seen && { entry: seen.found && { ...seen.found, value: null } };
      return update(
        store,
        prefix + id,
        (entry) => {
          const found = first && entry === first.entry ? seen.found : entry && foundIn(schema, entry);
          const packed = (next: Value | null | undefined) => (next ? pack(schema, next) : next);
          const next = change(found);
          return next instanceof Promise ? next.then(packed) : packed(next);
        },
        { ...hints, ...options, seen: first },
      );
    },
    delete: (id, options) => store.delete(prefix + id, options),
    async *pages(under, newer) {
      for await (const page of entryPages(store, prefix + under)) {
        const records: [string, Found<Value>][] = [];
        for (const [key, entry] of page) {
          try {
            records.push([key.slice(prefix.length), foundIn(schema, entry)]);
          } catch (error) {
            if (!isNewer(error)) throw error;
            newer?.(error);
          }
        }
        yield records;
      }
    },
  };
}

function foundIn<Value>(schema: Schema<Value>, { value, version, expiresAt }: Entry): Found<Value> {
  const found = { value: unpack(schema, value), version };
  return expiresAt === undefined ? found : { ...found, expiresAt };
}

/** Returns the schema of records that are already JSON and whose members are validated where they are used. */
export function recordsOf(kind: string, version = 1): Schema<Members> {
  return { kind, version, read: (record) => record, write: (members) => members as JsonObject };
}

/** The members of a record. */
export type Members = Readonly<Record<string, unknown>>;

/** The value of an entry whose presence is all that matters. */
export const MARK: JsonObject = { format: 1 };

/** Returns a value as stored, with the version of its schema. */
export function pack<Value extends object>({ version, write }: Schema<Value>, value: Value): JsonObject {
  const members = write ? write(value) : (JSON.parse(JSON.stringify(value)) as JsonObject);
  return { ...members, format: version };
}

/**
 * Reads a value written by {@link pack}, including one from an earlier release. Returns undefined if it is damaged.
 * Throws `store-newer`.
 */
export function unpack<Value>(schema: Schema<Value>, stored: Json): Value | undefined {
  const { kind, version, migrate, read } = schema;
  const format = isObject(stored) ? (stored['format'] ?? 1) : 1;
  if (typeof format !== 'number' || !Number.isInteger(format) || format < 1) return undefined;
  if (format > version) throw newerError(kind, format, version);
  let record = stored;
  for (let from = format; from < version && migrate; from++) record = migrate(record, from);
  return isObject(record) ? read(record) : undefined;
}

function newerError(kind: string, found: number, known: number): ValiseError {
  return new ValiseError(
    'store-newer',
    `The store has a ${kind} of version ${found}, and this release of Valise knows versions up to ${known}. It was left as it is.`,
    { next: 'Use the release that wrote it, or a later one; or delete the record.', outcome: 'not-done' },
  );
}

/** Whether a record was not read because a later release wrote it. */
export function isNewer(error: unknown): error is ValiseError {
  return error instanceof ValiseError && error.code === 'store-newer';
}
