import { isObject } from '../json.ts';
import { CORE, type Era } from './names.ts';

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

/** Returns the era that an SDK v2 client has negotiated with its server. Returns undefined for other clients. */
export function negotiatedEra(client: object | undefined): Era | undefined {
  return (client as { getProtocolEra?(): Era | undefined } | undefined)?.getProtocolEra?.();
}
