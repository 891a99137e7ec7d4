import { isObject } from '../core/json.ts';
import type { Result } from '../core/message.ts';
import { CORE, type Era } from './names.ts';

/**
 * Everything that differs between the eras of the protocol, apart from names (see `NAMES`). Code outside of `wire/` and
 * the carriers asks the codec of a request, and never compares eras.
 */
export interface Codec {
  /** The era, as a key for records and tables. Do not compare it: add a member to the codec instead. */
  readonly era: Era;
  /** The request with which a client meets a server. */
  readonly introduction: 'initialize' | 'server/discover';
  /** Whether each request carries the client's version and capabilities, and the transport has no session. */
  readonly isStateless: boolean;
  /** Whether a server asks by a result (`input_required`) and the client repeats the call with the answers. */
  readonly asksByResult: boolean;
  /** Returns the option `prior` of an SDK v2 client that connects to a server it already knows. */
  prior(introduction: Result): object;
  /** Adds what every result of the era has. */
  complete(result: Result): Result;
}

/** Up to 2025-11-25: a connection starts with `initialize`, and a server asks by requests of its own. */
const rev2025: Codec = {
  era: 'legacy',
  introduction: 'initialize',
  isStateless: false,
  asksByResult: false,
  prior: () => ({ kind: 'legacy' }),
  complete: (result) => result,
};

/** From 2026-07-28: every request stands alone. */
const rev2026: Codec = {
  era: 'modern',
  introduction: 'server/discover',
  isStateless: true,
  asksByResult: true,
  prior: (discover) => ({ kind: 'modern', discover }),
  complete: (result) => ({ resultType: 'complete', ...result }),
};

/** The codecs by era. */
export const CODECS: Readonly<Record<Era, Codec>> = { legacy: rev2025, modern: rev2026 };

/** Whether clients of a protocol version resume a stream by themselves once the server has ended it. */
export function resumesStreams(version: unknown): boolean {
  return typeof version === 'string' && version >= '2025-11-25';
}

/**
 * Returns the codec of a message. `version` is the protocol version that its transport names, for notifications, which
 * need not name it themselves.
 */
export function codecOf(message: unknown, version?: string): Codec {
  return CODECS[isModernVersion(version) ? 'modern' : eraOf(message)];
}

/** The codec of servers with transport sessions, and of the drafts' carriers. A connection starts with `initialize`. */
export const SESSIONFUL: Codec = rev2025;

/** Returns the codec of the era that a stored record names. Returns undefined if it names none. */
export function codecNamed(name: unknown): Codec | undefined {
  return typeof name === 'string' && Object.hasOwn(CODECS, name) ? CODECS[name as Era] : undefined;
}

/** Returns the codec of a protocol version. */
export function codecOfVersion(version: unknown): Codec {
  return isModernVersion(version) ? rev2026 : rev2025;
}

/** Returns the codec that an SDK v2 client has negotiated with its server. Returns undefined for other clients. */
export function negotiatedCodec(client: object | undefined): Codec | undefined {
  return codecNamed((client as { getProtocolEra?(): unknown } | undefined)?.getProtocolEra?.());
}

/** Returns the codecs that an SDK client offers, preferred first. SDK v2 offers 2026-07-28 only if its options say so. */
export function offeredCodecs(client: object): readonly [Codec, ...Codec[]] {
  const { _versionNegotiation } = client as { readonly _versionNegotiation?: { readonly mode?: unknown } };
  const mode = _versionNegotiation?.mode ?? 'legacy';
  if (!('getDiscoverResult' in client) || mode === 'legacy') return [rev2025];
  return mode === 'auto' ? [rev2026, rev2025] : [rev2026];
}

/** The first revision without `initialize`. */
export const FIRST_MODERN_VERSION = '2026-07-28';

/** The revisions that Valise supports, oldest first. */
export const PROTOCOL_VERSIONS: readonly string[] = [
  '2024-10-07',
  '2024-11-05',
  '2025-03-26',
  '2025-06-18',
  '2025-11-25',
  FIRST_MODERN_VERSION,
];

/** Whether the version is 2026-07-28 or any later revision, including unpublished ones. */
export function isModernVersion(version: unknown): boolean {
  // Revisions are ISO dates, which sort correctly as text.
  return (
    typeof version === 'string' && /^\d{4}-\d{2}-\d{2}$/.test(version) && version >= FIRST_MODERN_VERSION
  );
}

/**
 * Returns the era of a request. Modern requests name the protocol version in their `_meta`. Responses do not, so pass
 * the request of a response instead.
 */
export function eraOf(message: unknown): Era {
  if (!isObject(message)) return 'legacy';
  const { params } = message;
  if (!isObject(params) || !isObject(params._meta)) return 'legacy';
  return typeof params._meta[CORE.protocolVersion] === 'string' ? 'modern' : 'legacy';
}

/** The requests with which a client and a server introduce themselves, one per era. */
export const INTRODUCTIONS: ReadonlySet<string> = new Set(['initialize', 'server/discover']);
