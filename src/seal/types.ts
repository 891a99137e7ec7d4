import type { Duration } from '../duration.ts';
import type { Json } from '../json.ts';
import type { SealErrorCode } from './error.ts';
import type { KeyOptions, Keyring } from './keyring.ts';
import type { Ledger } from './ledger.ts';
import type { TokenHeader } from './token.ts';

/** What a sealer is made of. */
export interface SealerOptions extends KeyOptions {
  /** A keyring, or its text. Without it `VALISE_KEYS` is read, and without that a key is made that lives as long as the process. */
  readonly keys?: Keyring | string | undefined;
  /** Who may open: the name of the server. Servers that share keys but not tokens need different names. */
  readonly audience?: string | undefined;
  /** Lifetime of a token (10 minutes by default). */
  readonly ttl?: Duration | undefined;
  /** By how many seconds clocks may differ (60 by default). */
  readonly skew?: number | undefined;
  /** Longest token, and longest text inside one once decompressed (2 MiB by default). Longer ones are refused unread. */
  readonly maxBytes?: number | undefined;
  /** Compress texts longer than this. Off by default: the length of a compressed secret says something about it. */
  readonly compressAbove?: number | undefined;
  /** Remembers used tokens, for `openOnce`. */
  readonly ledger?: Ledger | undefined;
  /** Where `sealLarge` keeps what is too long to travel. */
  readonly spill?: SpillOptions | undefined;
  /** Hears why a token was refused. For the log, never for the peer. */
  readonly onReject?: ((event: RejectEvent) => void) | undefined;
  /** Hears what a person should know about the keys. */
  readonly onWarning?: ((warning: SealWarning) => void) | undefined;
  /** Milliseconds since 1970; for tests. */
  readonly now?: (() => number) | undefined;
}

/** Where and when payloads are kept instead of carried. */
export interface SpillOptions {
  readonly store: SpillStore;
  /** Longest token that still travels whole (8 KiB by default). */
  readonly above?: number | undefined;
  /** Start of the keys in the store (`seal/kept/` by default). */
  readonly prefix?: string | undefined;
}

/** What spilling needs of a store; every `Store` of `mcp-valise/store` has it. */
export interface SpillStore {
  get(key: string): Promise<{ readonly value: Json } | undefined>;
  put(key: string, value: string, options: { readonly ttl: number }): Promise<unknown>;
}

/** What a token must be opened with again. */
export interface OpenOptions {
  /** What the token is for; a token for one purpose never opens for another. */
  readonly purpose: string;
  /** The principal it belongs to. Sealed as a digest; given on one side only, the token does not open. */
  readonly subject?: string | undefined;
  /** What else must be the same: a session id, or the method and arguments of a request. The order of keys does not matter. */
  readonly bind?: Json | undefined;
}

/** How a value is sealed. */
export interface SealOptions extends OpenOptions {
  /** Lifetime of this token. */
  readonly ttl?: Duration | undefined;
}

/** How a token that may be large is opened. */
export interface OpenLargeOptions extends OpenOptions {
  /** Open it this once, as `openOnce` does. */
  readonly once?: boolean | undefined;
}

/** A token was refused. */
export interface RejectEvent {
  readonly code: SealErrorCode;
  /** The purpose it was to be opened for. */
  readonly purpose: string | undefined;
  /** What a genuine token says about itself; absent where it did not prove genuine. */
  readonly token?: TokenDescription;
}

/** Something a person should know. */
export interface SealWarning {
  readonly code: 'ephemeral-key';
  readonly message: string;
}

/** What a genuine token says about itself, without its payload. */
export interface TokenDescription extends TokenHeader {
  /** Unique among all tokens. */
  readonly id: string;
  readonly issuedAt: Date;
  readonly expiresAt: Date;
  /** True where its time is over, allowing for the clocks. */
  readonly expired: boolean;
  readonly purpose: string;
  readonly audience: string;
  /** True where it belongs to a principal. */
  readonly hasSubject: boolean;
  /** True where it is bound to a request or a session. */
  readonly isBound: boolean;
  /** True where the payload is in a store and the token only names it. */
  readonly isReference: boolean;
  readonly compressed: boolean;
}

/** Seals values into tokens and opens them again. Made by `createSealer`. */
export interface Sealer {
  readonly audience: string;
  /** The id of the key that seals. */
  readonly kid: string;
  /** True where the key lives only as long as this process. */
  readonly ephemeral: boolean;
  /** Seals a value into a URL-safe token. */
  seal(value: Json, options: SealOptions): string;
  /** Opens a token; throws `SealError` where it is not genuine, in time and for this server, purpose, subject and binding. */
  open<Value extends Json = Json>(token: string, options: OpenOptions): Value;
  /** Opens a token that may be opened once, and marks it as used. Fails where the ledger cannot be written. */
  openOnce<Value extends Json = Json>(token: string, options: OpenOptions): Promise<Value>;
  /** Seals like `seal`; where the token would be too long to travel, it stays in the store and a short one names it. */
  sealLarge(value: Json, options: SealOptions): Promise<string>;
  /** Opens what `sealLarge` or `seal` made. */
  openLarge<Value extends Json = Json>(token: string, options: OpenLargeOptions): Promise<Value>;
  /** What a genuine token says about itself, also when it is over or meant for somebody else. */
  describe(token: string): TokenDescription;
}
