import {
  CORE,
  FIRST_MODERN_VERSION,
  INPUT_METHODS,
  INVALID_PARAMS,
  isModernVersion,
  type Meta,
  type Params,
  PROTOCOL_VERSIONS,
  type Request,
  type Result,
  type RpcError,
} from 'mcp-valise/wire';

/** The `_meta` key by which a newer-era request asks for log messages. */
export const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

/** The `_meta` key by which a newer-era notification names its listener. */
export const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

const ENVELOPE: ReadonlySet<string> = new Set([
  CORE.protocolVersion,
  CORE.clientCapabilities,
  CORE.clientInfo,
  LOG_LEVEL,
]);

const LAST_OLDER_VERSION = PROTOCOL_VERSIONS.findLast((version) => !isModernVersion(version));

/** Converts a newer host's metadata to `initialize` params for an older server. */
export function introductionOf(envelope: Meta): Params {
  return {
    protocolVersion: LAST_OLDER_VERSION,
    capabilities: envelope[CORE.clientCapabilities] ?? {},
    clientInfo: envelope[CORE.clientInfo] ?? { name: 'host', version: '0' },
  };
}

/** Whether a request continues a call with answers to the server's questions. A server may ask without a `requestState`. */
export function goesOn({ method, params }: Request): boolean {
  const given = params?.['requestState'] ?? params?.['inputResponses'] ?? undefined;
  return INPUT_METHODS.includes(method) && given !== undefined;
}

/** Methods whose results declare a cache lifetime in the newer era. The older era declares none, so they are not cached. */
const CACHEABLE = new Set([
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
]);

/** The older era's code for a missing resource; the newer era has retired it. */
const RESOURCE_NOT_FOUND = -32002;

/** Converts params to the older era by removing the metadata about the sender. */
export function olderParams(params: Params | undefined): Params | undefined {
  if (!params?._meta) return params;
  const { _meta, ...rest } = params;
  const kept = Object.entries(_meta).filter(([key]) => !ENVELOPE.has(key));
  return kept.length > 0 ? { ...rest, _meta: Object.fromEntries(kept) } : rest;
}

/** Converts a result to the newer era. */
export function newerResult(method: string, result: Result): Result {
  const freshness = CACHEABLE.has(method) ? { ttlMs: 0, cacheScope: 'private' } : {};
  return { ...freshness, ...result, resultType: 'complete' };
}

/** Converts an error to the newer era. */
export function newerError(error: RpcError): RpcError {
  return error.code === RESOURCE_NOT_FOUND ? { ...error, code: INVALID_PARAMS } : error;
}

/** Returns the `server/discover` result for a server that has answered `initialize`. */
export function discovered({ capabilities, serverInfo, instructions, _meta }: Result): Result {
  return newerResult('server/discover', {
    supportedVersions: [FIRST_MODERN_VERSION],
    capabilities: capabilities ?? {},
    ...(instructions !== undefined && { instructions }),
    _meta: { ..._meta, ...(serverInfo !== undefined && { [CORE.serverInfo]: serverInfo }) },
  });
}
