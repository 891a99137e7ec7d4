import { isObject, type JsonObject } from '../json.ts';
import { isShallow } from './dict.ts';
import { isModernVersion, PROTOCOL_VERSIONS } from './era.ts';
import { CORE, type Era } from './names.ts';
import type { Problem } from './problem.ts';

/** What a client learned about a server when it first spoke to it, and need not ask again after a restart. */
export interface ServerMetadata {
  readonly era: Era;
  /** The version both sides agreed on. */
  readonly protocolVersion: string;
  readonly capabilities: JsonObject;
  /** Self-reported: to show to people, never to find stored state by. */
  readonly serverInfo?: JsonObject;
  readonly instructions?: string;
}

/** True for a revision that Valise speaks; what was kept under another one is to be dropped and negotiated anew. */
export function isKnownVersion(version: unknown): version is string {
  return typeof version === 'string' && PROTOCOL_VERSIONS.includes(version);
}

/**
 * Reads the result of `initialize` (legacy) or `server/discover` (modern) into what is worth keeping.
 *
 * @example
 * ```ts
 * const metadata = readServerMetadata(response.result);
 * if (!isProblem(metadata)) await keep(metadata);
 * ```
 */
export function readServerMetadata(result: unknown): ServerMetadata | Problem {
  if (!isObject(result)) return { problem: 'wrong-type', where: 'result' };
  const { capabilities, instructions } = result;
  if (!isObject(capabilities)) return { problem: 'wrong-type', where: 'result.capabilities' };
  if (!isShallow(capabilities)) return { problem: 'too-deep', where: 'result.capabilities' };
  const protocolVersion = versionOf(result);
  if (protocolVersion === undefined) return { problem: 'incomplete', where: 'result.protocolVersion' };
  const serverInfo =
    result.serverInfo ?? (isObject(result._meta) ? result._meta[CORE.serverInfo] : undefined);
  return {
    era: isModernVersion(protocolVersion) ? 'modern' : 'legacy',
    protocolVersion,
    capabilities: capabilities as JsonObject,
    ...(isObject(serverInfo) && isShallow(serverInfo) ? { serverInfo: serverInfo as JsonObject } : {}),
    ...(typeof instructions === 'string' ? { instructions } : {}),
  };
}

/** The agreed version, or the newest one of a discovery that both sides know. */
function versionOf({ protocolVersion, supportedVersions }: Record<string, unknown>): string | undefined {
  if (typeof protocolVersion === 'string') return protocolVersion;
  if (!Array.isArray(supportedVersions)) return undefined;
  return PROTOCOL_VERSIONS.findLast((version) => supportedVersions.includes(version));
}
