import { isObject, isShallow, type JsonObject } from '../core/json.ts';
import { isModernVersion, PROTOCOL_VERSIONS } from './codec.ts';
import { CORE, type Era } from './names.ts';
import type { Problem } from './problem.ts';

/** The metadata a client learns from a server on first contact and does not have to request again after a restart. */
export interface ServerMetadata {
  readonly era: Era;
  /** The version both sides agreed on. */
  readonly protocolVersion: string;
  readonly capabilities: JsonObject;
  /** Self-reported by the server. Use it for display, never as a key for stored state. */
  readonly serverInfo?: JsonObject;
  readonly instructions?: string;
}

/** Whether Valise supports this revision. Discard metadata stored under any other revision and negotiate again. */
export function isKnownVersion(version: unknown): version is string {
  return typeof version === 'string' && PROTOCOL_VERSIONS.includes(version);
}

/**
 * Reads the metadata to keep from the result of `initialize` (legacy) or `server/discover` (modern).
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

/** Returns the agreed version or, for a discovery result, the newest version that both sides support. */
function versionOf({ protocolVersion, supportedVersions }: Record<string, unknown>): string | undefined {
  if (typeof protocolVersion === 'string') return protocolVersion;
  if (!Array.isArray(supportedVersions)) return undefined;
  return PROTOCOL_VERSIONS.findLast((version) => supportedVersions.includes(version));
}
