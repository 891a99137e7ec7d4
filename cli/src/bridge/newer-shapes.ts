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

/** The `_meta` key by which a request of the newer era asks for log messages. */
export const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

/** The `_meta` key by which a notification of the newer era names its listener. */
export const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

const ENVELOPE: ReadonlySet<string> = new Set([
  CORE.protocolVersion,
  CORE.clientCapabilities,
  CORE.clientInfo,
  LOG_LEVEL,
]);

const LAST_OLDER_VERSION = PROTOCOL_VERSIONS.findLast((version) => !isModernVersion(version));

/** What a newer host says of itself, as an older server is told it. */
export function introductionOf(envelope: Meta): Params {
  return {
    protocolVersion: LAST_OLDER_VERSION,
    capabilities: envelope[CORE.clientCapabilities] ?? {},
    clientInfo: envelope[CORE.clientInfo] ?? { name: 'host', version: '0' },
  };
}

/** True for a request that goes on with a call, by answers to what a server has asked in it. A server may ask without a state. */
export function goesOn({ method, params }: Request): boolean {
  const given = params?.['requestState'] ?? params?.['inputResponses'] ?? undefined;
  return INPUT_METHODS.includes(method) && given !== undefined;
}

/** Results that say in the newer era how long they may be kept. The older one says nothing, so: not at all. */
const CACHEABLE = new Set([
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
]);

/** The older era's code for a resource that is not there; the newer one has retired it. */
const RESOURCE_NOT_FOUND = -32002;

/** Params as the older era has them: without what each request of the newer one says about its sender. */
export function olderParams(params: Params | undefined): Params | undefined {
  if (!params?._meta) return params;
  const { _meta, ...rest } = params;
  const kept = Object.entries(_meta).filter(([key]) => !ENVELOPE.has(key));
  return kept.length > 0 ? { ...rest, _meta: Object.fromEntries(kept) } : rest;
}

/** A result as the newer era has it. */
export function newerResult(method: string, result: Result): Result {
  const freshness = CACHEABLE.has(method) ? { ttlMs: 0, cacheScope: 'private' } : {};
  return { ...freshness, ...result, resultType: 'complete' };
}

/** An error as the newer era has it. */
export function newerError(error: RpcError): RpcError {
  return error.code === RESOURCE_NOT_FOUND ? { ...error, code: INVALID_PARAMS } : error;
}

/** What `server/discover` says of a server that has answered `initialize`. */
export function discovered({ capabilities, serverInfo, instructions, _meta }: Result): Result {
  return newerResult('server/discover', {
    supportedVersions: [FIRST_MODERN_VERSION],
    capabilities: capabilities ?? {},
    ...(instructions !== undefined && { instructions }),
    _meta: { ..._meta, ...(serverInfo !== undefined && { [CORE.serverInfo]: serverInfo }) },
  });
}
