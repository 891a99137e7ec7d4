import { ValiseError } from '../../errors.ts';
import { isObject, type Json, type JsonObject } from '../../json.ts';
import { entryPages } from '../page.ts';
import type { Entry, PutOptions, Store } from '../types.ts';
import { type UpdateOptions, update } from './update.ts';

/** How the records of one kind are stored. The version is the member `format` of each; a record without one has version 1. */
export interface Schema<Value> {
  /** What such a record is called in messages, e.g. "session record". */
  readonly kind: string;
  /** The version that this release writes. Raise it if an older release would misread or damage what this one writes. */
  readonly version: number;
  /** Brings a record of version `from` to the next one. Needed once `version` is above 1. */
  readonly migrate?: (value: Json, from: number) => Json;
  /** Checks the members of a record; undefined if it is damaged. */
  read(record: Members): Value | undefined;
  /** The members to store; by default those of the value as JSON has them. */
  readonly write?: (value: Value) => JsonObject;
}

/** A record, and the entry that it is in. */
export interface Found<Value> {
  /** Undefined if the entry is damaged; it may be replaced. */
  readonly value: Value | undefined;
  /** For `ifVersion`. */
  readonly version: string;
  readonly expiresAt?: number;
}

/** The records of one kind under one prefix of a store. */
export interface Collection<Value> {
  /** Throws `store-newer` if a later release wrote the record. */
  get(id: string): Promise<Found<Value> | undefined>;
  /** Writes a record without reading it before: for a new name, or with a condition, since it would replace a newer record. */
  put(id: string, value: Value, options?: PutOptions): Promise<string | undefined>;
  /** As `update` of the kit, on records. A newer record stays as it is: this throws `store-newer`. */
  update(
    id: string,
    change: (found: Found<Value> | undefined) => Value | null | undefined | Promise<Value | null | undefined>,
    options?: CollectionUpdateOptions<Value>,
  ): Promise<string | null | undefined>;
  delete(id: string, options?: { readonly ifVersion?: string }): Promise<boolean>;
  /** All records whose id starts with `under`, page by page. Newer ones are left out, and told to `newer`. */
  pages(
    under: string,
    newer?: (error: ValiseError) => void,
  ): AsyncGenerator<readonly (readonly [id: string, found: Found<Value>])[]>;
}

/** How a record is updated. */
export interface CollectionUpdateOptions<Value> extends Omit<UpdateOptions, 'seen'> {
  /** The record as it was read last, so that the first attempt need not read it. */
  readonly seen?: { readonly found: Found<Value> | undefined } | undefined;
}

/** Typed records with a schema version, under a prefix of a store. */
export function collection<Value extends object>(
  store: Pick<Store, 'get' | 'put' | 'delete' | 'list' | 'entries'>,
  prefix: string,
  schema: Schema<Value>,
): Collection<Value> {
  return {
    async get(id) {
      const entry = await store.get(prefix + id);
      return entry && foundIn(schema, entry);
    },
    put: (id, value, options) => store.put(prefix + id, pack(schema, value), options),
    update(id, change, { seen, ...options } = {}) {
      const first = seen && { entry: seen.found && { ...seen.found, value: null } };
      return update(
        store,
        prefix + id,
        async (entry) => {
          const found = first && entry === first.entry ? seen.found : entry && foundIn(schema, entry);
          const next = await change(found);
          return next ? pack(schema, next) : next;
        },
        { ...options, seen: first },
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

/** The schema of records that are JSON already, and whose members are checked where they are used. */
export function recordsOf(kind: string, version = 1): Schema<Members> {
  return { kind, version, read: (record) => record, write: (members) => members as JsonObject };
}

/** The members of a record. */
export type Members = Readonly<Record<string, unknown>>;

/** What stands under a key that says everything by being there. */
export const MARK: JsonObject = { format: 1 };

/** A value as a store takes it, with the version of its schema. */
export function pack<Value extends object>({ version, write }: Schema<Value>, value: Value): JsonObject {
  const members = write ? write(value) : (JSON.parse(JSON.stringify(value)) as JsonObject);
  return { ...members, format: version };
}

/** Reads what {@link pack} wrote, also in an earlier release; undefined if it is damaged. Throws `store-newer`. */
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
