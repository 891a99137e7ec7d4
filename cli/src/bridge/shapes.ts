import {
  CORE,
  FIRST_MODERN_VERSION,
  INPUT_METHODS,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  isModernVersion,
  isObject,
  type Meta,
  type Notification,
  type Params,
  PROTOCOL_VERSIONS,
  type Request,
  type Result,
  type RpcError,
  UNSUPPORTED_VERSION,
} from 'mcp-valise/internal';

// The messages of each era in the form of the other. "Newer" is 2026-07-28, and "older" is every revision before it.

/** The `_meta` key by which a newer request asks for log messages. */
export const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

/** The `_meta` key by which a newer notification names its listener. */
export const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

/** The newer notification that confirms a listener. */
export const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';

/** The params of the bridge's own `server/discover`. */
export const DISCOVER: Params = {
  _meta: { [CORE.protocolVersion]: FIRST_MODERN_VERSION, [CORE.clientCapabilities]: {} },
};

/** The host's error for a call in which the server asked something before it was replaced. */
export const SERVER_CHANGED: RpcError = {
  code: INTERNAL_ERROR,
  message:
    'valise connect: The server was replaced while this call waited for an answer of the host, and the new one does not know of it. It may have been carried out in part: look before calling again.',
};

/** The answer to a question of the server whose call the host has cancelled. */
export const CALL_CANCELLED: RpcError = {
  code: -32000,
  message: 'The host cancelled the call that this was asked in.',
};

const ENVELOPE: ReadonlySet<string> = new Set([
  CORE.protocolVersion,
  CORE.clientCapabilities,
  CORE.clientInfo,
  LOG_LEVEL,
]);

const LAST_OLDER_VERSION = PROTOCOL_VERSIONS.findLast((version) => !isModernVersion(version));

/** Methods whose newer results declare a cache lifetime. Older results declare none, so they are not cached. */
const CACHEABLE = new Set([
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
]);

/** Codes that only newer servers use. They reject the request, but show that the server speaks the era. */
const HEADER_MISMATCH = -32020;
const MISSING_CAPABILITY = -32021;

/** The older code for a missing resource. The newer era has retired it. */
const RESOURCE_NOT_FOUND = -32002;

/** Whether a request continues a call with answers to the server's questions. A server may ask without a `requestState`. */
export function isContinuation({ method, params }: Request): boolean {
  const given = params?.['requestState'] ?? params?.['inputResponses'] ?? undefined;
  return INPUT_METHODS.includes(method) && given !== undefined;
}

/** Whether a newer host uses this request to receive notifications. */
export function isListener({ method }: Request): boolean {
  return method === 'subscriptions/listen';
}

/** Whether an error of `server/discover` shows that the server does not speak the newer era. */
export function isRefusal({ code, data }: RpcError): boolean {
  if (code === HEADER_MISMATCH || code === MISSING_CAPABILITY) return false;
  return code !== UNSUPPORTED_VERSION || !supportsModern(data);
}

/** Whether the data of an unsupported-version error lists a version of the newer era. */
export function supportsModern(data: unknown): boolean {
  const supported = isObject(data) && Array.isArray(data['supported']) ? data['supported'] : [];
  return supported.some(isModernVersion);
}

/** Returns the params of a call without the fields that differ between its requests. */
export function argumentsOf(params: Params | undefined): Params {
  const { _meta, inputResponses, requestState, ...rest } = params ?? {};
  return rest;
}

/** Returns the part of a newer request's metadata that describes its sender. */
export function senderOf(meta: Meta): Meta {
  return Object.fromEntries(Object.entries(meta).filter(([key]) => ENVELOPE.has(key)));
}

/** Converts the metadata of a newer host to `initialize` params. */
export function initializeParams(envelope: Meta): Params {
  return {
    protocolVersion: LAST_OLDER_VERSION,
    capabilities: envelope[CORE.clientCapabilities] ?? {},
    clientInfo: envelope[CORE.clientInfo] ?? { name: 'host', version: '0' },
  };
}

/** Converts the `initialize` params of an older host to the metadata of each request. */
export function envelopeFor({ capabilities, clientInfo }: Params, logLevel: unknown): Meta {
  return {
    [CORE.protocolVersion]: FIRST_MODERN_VERSION,
    [CORE.clientCapabilities]: capabilities ?? {},
    ...(clientInfo !== undefined && { [CORE.clientInfo]: clientInfo }),
    ...(logLevel !== undefined && { [LOG_LEVEL]: logLevel }),
  };
}

/** Converts an `initialize` result to a `server/discover` result. */
export function discoverResult({ capabilities, serverInfo, instructions, _meta }: Result): Result {
  return newerResult('server/discover', {
    supportedVersions: [FIRST_MODERN_VERSION],
    capabilities: capabilities ?? {},
    ...(instructions !== undefined && { instructions }),
    _meta: { ..._meta, ...(serverInfo !== undefined && { [CORE.serverInfo]: serverInfo }) },
  });
}

/** Converts a `server/discover` result to an `initialize` result. */
export function initializeResult(discovered: Result, { protocolVersion }: Params): Result {
  const { capabilities, instructions, _meta } = discovered;
  return {
    protocolVersion,
    capabilities: isObject(capabilities) ? capabilities : {},
    serverInfo: _meta?.[CORE.serverInfo] ?? { name: 'server', version: '0' },
    ...(instructions !== undefined && { instructions }),
    ...(_meta && { _meta }),
  };
}

/** Removes the metadata about the sender from newer params. */
export function olderParams(params: Params | undefined): Params | undefined {
  return params && withoutMeta(params, ENVELOPE);
}

/** Removes the name of the listener from a newer notification. */
export function olderNotification(message: Notification): Notification {
  const { params } = message;
  return params ? { ...message, params: withoutMeta(params, new Set([SUBSCRIPTION_ID])) } : message;
}

function withoutMeta(params: Params, keys: ReadonlySet<string>): Params {
  if (!params._meta) return params;
  const { _meta, ...rest } = params;
  const kept = Object.entries(_meta).filter(([key]) => !keys.has(key));
  return kept.length > 0 ? { ...rest, _meta: Object.fromEntries(kept) } : rest;
}

/** Converts a newer result to the older era. */
export function olderResult({ resultType: _, ...result }: Result): Result {
  return result;
}

/** Converts an older result to the newer era. */
export function newerResult(method: string, result: Result): Result {
  const freshness = CACHEABLE.has(method) ? { ttlMs: 0, cacheScope: 'private' } : {};
  return { ...freshness, ...result, resultType: 'complete' };
}

/** Converts an older error to the newer era. */
export function newerError(error: RpcError): RpcError {
  return error.code === RESOURCE_NOT_FOUND ? { ...error, code: INVALID_PARAMS } : error;
}
