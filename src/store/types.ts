import { isObject, type Json } from '../core/json.ts';

/** An entry of a store. */
export interface Entry<Value extends Json = Json> {
  readonly value: Value;
  /** Changes with every write. Pass it as `ifVersion` to write only if nobody else has. Opaque, never reused for a key. */
  readonly version: string;
  /** When the entry expires, in milliseconds since 1970. Absent if it does not expire. */
  readonly expiresAt?: number;
}

/** The conditions and lifetime of a write. */
export interface PutOptions {
  /** The lifetime in seconds, which may be a fraction. Without it the entry does not expire, even if the previous one did. */
  readonly ttl?: number;
  /** Write only if the entry still has this version. */
  readonly ifVersion?: string;
  /** Write only if there is no unexpired entry. */
  readonly ifAbsent?: boolean;
  /**
   * The entry is only looked up by its key, so `list` may omit it (`scan` does not). Use the same value for every write of a key. This
   * hint makes writes cheaper on some stores, and distributes them over a cluster.
   */
  readonly unlisted?: boolean;
  /** The write must survive a failover. This is a hint: stores opened with `durability: 'replicated'` wait for a replica. */
  readonly durable?: boolean;
}

/** Selects a page of a listing. */
export interface ListOptions {
  /** The cursor of the previous page. */
  readonly cursor?: string;
  /** The maximum number of keys; 1,000 by default. */
  readonly limit?: number;
}

/** One page of keys. */
export interface KeyPage {
  /** In ascending order of code units or bytes, depending on the driver. The order is stable. */
  readonly keys: readonly string[];
  /** The start of the next page. Absent on the last page. */
  readonly cursor?: string;
}

/** One page of entries with their keys. */
export interface EntryPage {
  /** In the order of {@link KeyPage.keys}. */
  readonly entries: readonly (readonly [key: string, entry: Entry])[];
  /** The start of the next page. Absent on the last page. */
  readonly cursor?: string;
}

/** An exclusive right that lasts until `release()` or until it expires. */
export interface Lease {
  /** A fencing token: it increases with every holder of the key. */
  readonly fence: number;
  /** Extends the lease. Returns false if it has been lost. */
  renew(ttl: number): Promise<boolean>;
  /** Releases the lease. Does nothing if it has been lost. */
  release(): Promise<void>;
}

/**
 * The storage contract of Valise: small enough to implement in fifty lines, strong enough for everything built on it.
 * There are no transactions: store values that change together under one key, and use `ifVersion` to update them
 * safely. A key is 1 to 1,024 bytes of well-formed Unicode without NUL, compared byte by byte (otherwise
 * `store-invalid`). A value is anything JSON can represent (otherwise `store-invalid`). Leases have a separate
 * namespace: they neither hide nor list entries. Verify every driver, including your own, with the contract test in
 * `mcp-valise/testing`.
 */
export interface Store {
  /** Returns the entry under `key`, or undefined if there is none or it has expired. */
  get(key: string): Promise<Entry | undefined>;
  /** Writes `value`. Returns the new version, or undefined if a condition in `options` failed and nothing was written. */
  put(key: string, value: Json, options?: PutOptions): Promise<string | undefined>;
  /** Deletes the entry. Returns true if there was one (with the given version). */
  delete(key: string, options?: { readonly ifVersion?: string }): Promise<boolean>;
  /**
   * Lists the keys that start with `prefix`, one page at a time (`limit` 1,000 by default). A key that exists
   * throughout the listing is listed exactly once.
   */
  list(prefix: string, options?: ListOptions): Promise<KeyPage>;
  /** Like `list`, with the entries of the keys. Optional: implement it only if it is faster than a `get` per key. */
  entries?(prefix: string, options?: ListOptions): Promise<EntryPage>;
  /**
   * Like `list`, for tools that must find every entry, including those written with `unlisted`. The order is arbitrary,
   * a page may have more or fewer keys than `limit`, and a key may be returned twice. Optional: implement it if `list`
   * omits unlisted entries.
   */
  scan?(prefix: string, options?: ListOptions): Promise<KeyPage>;
  /**
   * Tries to become the only holder of `key`, across processes, for `ttl` seconds. Returns undefined if another holder
   * exists.
   */
  lease(key: string, ttl: number): Promise<Lease | undefined>;
  /** Waits for pending work and closes files and connections. Later calls fail with `closed`. */
  close(): Promise<void>;
}

/** Notifies other instances, at most once, and only those that are listening at the time. */
export interface Bus {
  publish(topic: string, message: Json): Promise<void>;
  /**
   * Resolves once messages will arrive. Returns a function that ends the subscription. If a listener throws, the others
   * still receive the message, and the error becomes a process warning (`process.emitWarning`).
   */
  subscribe(topic: string, listener: (message: Json) => void): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

/** Whether the value has the methods of a store, regardless of who created it. */
export function isStore(value: unknown): value is Store {
  return (
    isObject(value) &&
    ['get', 'put', 'delete', 'list', 'lease'].every((name) => typeof value[name] === 'function')
  );
}
