import { isObject } from '../json.ts';
import { CORE, type Era } from './names.ts';

/** The first revision without `initialize`. */
export const FIRST_MODERN_VERSION = '2026-07-28';

/** Revisions that Valise knows, oldest first. */
export const PROTOCOL_VERSIONS: readonly string[] = [
  '2024-10-07',
  '2024-11-05',
  '2025-03-26',
  '2025-06-18',
  '2025-11-25',
  FIRST_MODERN_VERSION,
];

/** True for 2026-07-28 and every later revision, also ones that are not out yet. */
export function isModernVersion(version: unknown): boolean {
  // Revisions are dates, and dates written this way sort as text.
  return (
    typeof version === 'string' && /^\d{4}-\d{2}-\d{2}$/.test(version) && version >= FIRST_MODERN_VERSION
  );
}

/**
 * The era a message belongs to. A request says so itself: modern ones name the protocol version in their `_meta`.
 * A response does not; ask with its request.
 */
export function eraOf(message: unknown): Era {
  if (!isObject(message)) return 'legacy';
  const { params } = message;
  if (!isObject(params) || !isObject(params._meta)) return 'legacy';
  return typeof params._meta[CORE.protocolVersion] === 'string' ? 'modern' : 'legacy';
}

/** The requests by which a client and a server get to know each other, one for each era. */
export const INTRODUCTIONS: ReadonlySet<string> = new Set(['initialize', 'server/discover']);
