import type { Json } from '../json.ts';

/** What a store holds under a key. */
export interface Entry<Value extends Json = Json> {
  readonly value: Value;
  /** Changes with every write; hand it to `ifVersion` to write only if nobody else has. Opaque, never reused for a key. */
  readonly version: string;
  /** When the entry ends, in milliseconds since 1970; absent where it has no end. */
  readonly expiresAt?: number;
}

/** Conditions and lifetime of a write. */
export interface PutOptions {
  /** Lifetime in seconds, also a fraction of one; without it the entry stays, also where the entry before had a lifetime. */
  readonly ttl?: number;
  /** Write only if the entry still has this version. */
  readonly ifVersion?: string;
  /** Write only if there is no living entry. */
  readonly ifAbsent?: boolean;
  /**
   * The entry is only ever found by its key, so `list` may leave it out; set it the same way on every write of a key. A hint that
   * makes writes cheaper on some stores, and spreads them over a cluster.
   */
  readonly unlisted?: boolean;
  /** The write must survive a failover. A hint: stores with replicas wait for one if they were opened with `durability: 'replicated'`. */
  readonly durable?: boolean;
}

/** Which page of a listing. */
export interface ListOptions {
  /** Where the page before has ended. */
  readonly cursor?: string;
  /** How many at the most; 1,000 by default. */
  readonly limit?: number;
}

/** One page of keys. */
export interface KeyPage {
  /** In ascending order of code units or bytes (a driver's own, but stable). */
  readonly keys: readonly string[];
  /** Where the next page starts; absent on the last one. */
  readonly cursor?: string;
}

/** One page of entries with their keys. */
export interface EntryPage {
  /** In the order of {@link KeyPage.keys}. */
  readonly entries: readonly (readonly [key: string, entry: Entry])[];
  /** Where the next page starts; absent on the last one. */
  readonly cursor?: string;
}

/** The right to be the only one doing something, until `release()` or until its time is over. */
export interface Lease {
  /** Rises with every holder of the key: a fencing token. */
  readonly fence: number;
  /** Prolongs the lease; false where it has been lost. */
  renew(ttl: number): Promise<boolean>;
  /** Gives the lease back; harmless where it has been lost. */
  release(): Promise<void>;
}

/**
 * Where Valise keeps things: small enough to implement in fifty lines, strong enough for everything above it.
 * There are no transactions: one key holds what must change together, and `ifVersion` makes that safe.
 * A key is 1 to 1,024 bytes of well-formed Unicode without NUL, told apart byte by byte (`store-bad-key` else); a value is
 * what JSON can write (`store-bad-value` else). Leases have names of their own: they neither hide nor list entries.
 * Every driver, also your own, is proved by the contract test in `mcp-valise/testing`.
 */
export interface Store {
  /** The entry under `key`, or undefined where there is none or its time is over. */
  get(key: string): Promise<Entry | undefined>;
  /** Writes `value`. The new version, or undefined where a condition in `options` did not hold and nothing was written. */
  put(key: string, value: Json, options?: PutOptions): Promise<string | undefined>;
  /** Removes the entry; true if there was one (with the version asked for). */
  delete(key: string, options?: { readonly ifVersion?: string }): Promise<boolean>;
  /** Keys that start with `prefix`, a page at a time (`limit` 1,000 by default). A key that lives all through the listing is listed exactly once. */
  list(prefix: string, options?: ListOptions): Promise<KeyPage>;
  /** As `list`, with what is under the keys. Only where that is faster than a `get` for each: others leave it out. */
  entries?(prefix: string, options?: ListOptions): Promise<EntryPage>;
  /** Tries to become the only holder of `key`, across processes, for `ttl` seconds; undefined where another one is. */
  lease(key: string, ttl: number): Promise<Lease | undefined>;
  /** Waits for work under way and lets go of files and connections. Later calls fail with `store-closed`. */
  close(): Promise<void>;
}

/** Tells other instances that something happened. At most once, to those who listen now. */
export interface Bus {
  publish(topic: string, message: Json): Promise<void>;
  /**
   * Resolves once messages will arrive; the function returned ends it. What a listener throws keeps no message from the
   * others, and becomes a warning of the process (`process.emitWarning`).
   */
  subscribe(topic: string, listener: (message: Json) => void): Promise<() => Promise<void>>;
  close(): Promise<void>;
}
