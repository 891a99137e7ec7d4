/**
 * The internals that `mcp-valise-cli` needs beyond the public subpaths. Not for applications: names here change without
 * notice, so the command line depends on the exact version of the library that it was built with.
 *
 * @internal
 * @module
 */

export { saysTimeout } from '../client/call.ts';
export { causesOf, isConnectError, statusOf, VERSION_GONE } from '../client/connection/errors.ts';
export { makeHttpTransport } from '../client/connection/http.ts';
export type { Continued } from '../client/flows/types.ts';
export { type Identity, identify, isIdentity, type NoIdentity } from '../client/identity.ts';
export { loadSdk, majorOf } from '../client/major.ts';
export { keychainProblem } from '../client/oauth/keychain.ts';
export type { Revoked } from '../client/oauth/revocation.ts';
export { keyFileOf } from '../client/own-store.ts';
export type { RecordedEvent } from '../client/recorded-events.ts';
export { sessionErrorIn } from '../client/sessions/errors.ts';
export type { KeptSession } from '../client/sessions/types.ts';
export { targetKey, targetNamed } from '../client/target.ts';
export { seconds } from '../duration.ts';
export { messageOf } from '../errors.ts';
export { isObject } from '../json.ts';
export type { FetchLike } from '../link/edge-fetch.ts';
export { limitLines, tooLargeRequest } from '../link/edge-stdio.ts';
export { instrument } from '../link/instrument.ts';
export { MAX_MESSAGE } from '../link/limit.ts';
export { StdioClientTransport } from '../link/stdio-client.ts';
export type { TransportLike } from '../link/transport.ts';
export { redactUrls } from '../redact-urls.ts';
export { PAGE_HEADERS } from '../server/operator-console.ts';
export { copyEntries } from '../store/copy.ts';
export { checkStoreUrl, fileOf, openAsItIs } from '../store/open.ts';
export { plainEntries } from '../store/plain-entries.ts';
export { fullPath, privateFile } from '../store/private-file.ts';
export { RedisConnection } from '../store/redis/connection.ts';
export * from '../wire/index.ts';
export { UNSUPPORTED_VERSION } from '../wire/message.ts';
