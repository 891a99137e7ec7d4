import { type Duration, seconds } from '../core/duration.ts';
import { ValiseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import type { SealReason } from './error.ts';
import { type KeyOptions, type Keyring, loadKeys, parseKeys } from './keyring.ts';
import type { Ledger } from './ledger.ts';
import type { TokenHeader } from './token.ts';

/** The options of `createSealer`. */
export interface SealerOptions extends KeyOptions {
  /** A keyring, or its text. Defaults to `VALISE_KEYS`; if that is not set, to a key that lives as long as the process. */
  readonly keys?: Keyring | string | undefined;
  /** The name of the server that may open the tokens. Servers that share keys but not tokens need different names. */
  readonly audience?: string | undefined;
  /** The lifetime of a token (10 minutes by default). */
  readonly ttl?: Duration | undefined;
  /** The number of seconds by which clocks may differ (60 by default). */
  readonly skew?: number | undefined;
  /** The maximum length of a token, and of its decompressed text (2 MiB by default). Longer tokens are rejected unread. */
  readonly maxBytes?: number | undefined;
  /** Compresses texts longer than this. Off by default, because the length of a compressed secret leaks information about it. */
  readonly compressAbove?: number | undefined;
  /** Records used tokens, for `openOnce`. */
  readonly ledger?: Ledger | undefined;
  /** The store in which `sealLarge` keeps tokens that are too long to send. */
  readonly spill?: SpillOptions | undefined;
  /** Called with the reason when a token is rejected. For the log, never for the peer. */
  readonly onReject?: ((event: RejectEvent) => void) | undefined;
  /** Called with warnings about the keys. */
  readonly onWarning?: ((warning: SealWarning) => void) | undefined;
  /** Returns milliseconds since 1970. For tests. */
  readonly now?: (() => number) | undefined;
}

/** Where and when payloads are stored instead of sent. */
export interface SpillOptions {
  readonly store: SpillStore;
  /** The maximum length of a token that is sent whole (8 KiB by default). */
  readonly above?: number | undefined;
  /** The prefix of the keys in the store (`seal/kept/` by default). */
  readonly prefix?: string | undefined;
}

/** The part of a store that spilling needs. Every `Store` of `mcp-valise/store` provides it. */
export interface SpillStore {
  get(key: string): Promise<{ readonly value: Json } | undefined>;
  put(key: string, value: string, options: { readonly ttl: number }): Promise<unknown>;
}

/** The values that must match when a token is opened. */
export interface OpenOptions {
  /** The purpose of the token. A token for one purpose never opens for another. */
  readonly purpose: string;
  /** The principal the token belongs to, sealed as a digest. If only one side gives a subject, the token does not open. */
  readonly subject?: string | undefined;
  /**
   * Further values that must match: a session id, or the method and arguments of a request. The order of keys does not
   * matter.
   */
  readonly bind?: Json | undefined;
}

/** Options for sealing a value. */
export interface SealOptions extends OpenOptions {
  /** The lifetime of this token. */
  readonly ttl?: Duration | undefined;
}

/** Options for opening a token that may be large. */
export interface OpenLargeOptions extends OpenOptions {
  /** Open the token only once, as `openOnce` does. */
  readonly once?: boolean | undefined;
}

/** The event for a rejected token. */
export interface RejectEvent {
  readonly reason: SealReason;
  /** The purpose for which the token was to be opened. */
  readonly purpose: string | undefined;
  /** The description of a genuine token. Absent if the token is not genuine. */
  readonly token?: TokenDescription;
}

/** A warning for the operator. */
export interface SealWarning {
  readonly code: 'ephemeral-key';
  readonly message: string;
}

/** The description of a genuine token, without its payload. */
export interface TokenDescription extends TokenHeader {
  /** Unique among all tokens. */
  readonly id: string;
  readonly issuedAt: Date;
  readonly expiresAt: Date;
  /** Whether the token has expired, allowing for clock skew. */
  readonly expired: boolean;
  readonly purpose: string;
  readonly audience: string;
  /** Whether the token belongs to a principal. */
  readonly hasSubject: boolean;
  /** Whether the token is bound to a request or a session. */
  readonly isBound: boolean;
  /** Whether the payload is in a store and the token only names it. */
  readonly isReference: boolean;
  readonly compressed: boolean;
}

/** Seals values into tokens and opens them again. Create one with `createSealer`. */
export interface Sealer {
  readonly audience: string;
  /** The id of the key that seals. */
  readonly kid: string;
  /** Whether the key lives only as long as this process. */
  readonly ephemeral: boolean;
  /** Seals a value into a URL-safe token. */
  seal(value: Json, options: SealOptions): string;
  /** Opens a token. Throws `SealError` unless it is genuine, current, and for this server, purpose, subject and binding. */
  open<Value extends Json = Json>(token: string, options: OpenOptions): Value;
  /** Opens a single-use token and marks it as used. Fails if the ledger cannot be written. */
  openOnce<Value extends Json = Json>(token: string, options: OpenOptions): Promise<Value>;
  /** Seals like `seal`. If the token would be too long to send, it stays in the store and a short token names it. */
  sealLarge(value: Json, options: SealOptions): Promise<string>;
  /** Opens a token made by `sealLarge` or `seal`. */
  openLarge<Value extends Json = Json>(token: string, options: OpenLargeOptions): Promise<Value>;
  /** Describes a genuine token, even if it has expired or is meant for another recipient. */
  describe(token: string): TokenDescription;
}

/** The options of a sealer, validated and with defaults applied. Durations are whole seconds. */
export interface Settings {
  readonly keys: Keyring;
  readonly audience: string;
  readonly ttl: number;
  readonly skew: number;
  readonly maxBytes: number;
  readonly compressAbove: number;
  readonly spill: { readonly [Name in keyof SpillOptions]-?: NonNullable<SpillOptions[Name]> } | undefined;
  readonly ledger: SealerOptions['ledger'];
  readonly onReject: SealerOptions['onReject'];
  readonly now: () => number;
}

const TTL = 600;
const SKEW = 60;
const MAX_BYTES = 2 * 1024 * 1024;
const SPILL_ABOVE = 8 * 1024;

export function readSettings(options: SealerOptions): Settings {
  const {
    audience = '',
    skew = SKEW,
    maxBytes = MAX_BYTES,
    spill,
    ledger,
    onReject,
    allowWeakKeys,
  } = options;
  const {
    keys = loadKeys({ allowWeakKeys }),
    compressAbove = Number.POSITIVE_INFINITY,
    now = () => Date.now(),
  } = options;
  if (typeof audience !== 'string') throw badOption('audience', 'a text');
  if (!(Number.isFinite(skew) && skew >= 0)) throw badOption('skew', 'a number of seconds');
  if (!(Number.isSafeInteger(maxBytes) && maxBytes > 0)) throw badOption('maxBytes', 'a number of bytes');
  if (!(compressAbove >= 0)) throw badOption('compressAbove', 'a number of bytes');
  return {
    keys: typeof keys === 'string' ? parseKeys(keys, { allowWeakKeys }) : keys,
    audience,
    ttl: wholeSeconds(options.ttl ?? TTL),
    skew,
    maxBytes,
    compressAbove,
    spill: spill && {
      store: spill.store,
      above: spill.above ?? SPILL_ABOVE,
      prefix: spill.prefix ?? 'seal/kept/',
    },
    ledger,
    onReject,
    now,
  };
}

/** Returns a lifetime in whole seconds, as stored in a token. */
export function wholeSeconds(duration: number | string): number {
  return Math.ceil(seconds(duration));
}

/** Returns the purpose, which every seal and open call must name. */
export function purposeOf(options: OpenOptions): string {
  const purpose: unknown = options?.purpose;
  if (typeof purpose === 'string' && purpose !== '') return purpose;
  throw badOption('purpose', 'a text of at least one character');
}

/** Returns the text of a subject for its digest. It is JSON, so that malformed text (lone surrogates) stays distinct in UTF-8. */
export function subjectTextOf({ subject }: OpenOptions): string | undefined {
  if (subject === undefined) return undefined;
  if (typeof subject !== 'string') throw badOption('subject', 'a text');
  return JSON.stringify(subject);
}

function badOption(name: string, what: string): ValiseError {
  return new ValiseError('invalid-argument', `The option ${name} of a seal is not ${what}.`, {
    next: `Give ${what}.`,
  });
}
