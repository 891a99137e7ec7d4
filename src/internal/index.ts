/**
 * The internals that `mcp-valise-cli` needs beyond the public subpaths. Not for applications: names here change without
 * notice, so the command line depends on the exact version of the library that it was built with.
 *
 * @internal
 * @module
 */

export { causesOf, isConnectError, statusOf, VERSION_GONE } from '../client/connection/errors.ts';
export { makeHttpTransport } from '../client/connection/http.ts';
export type { Continued } from '../client/flows/types.ts';
export { type Identity, identify, isIdentity, type NoIdentity } from '../client/identity/identity.ts';
export { targetKey, targetNamed } from '../client/identity/target.ts';
export { loadSdk, majorOf } from '../client/major.ts';
export { keychainProblem } from '../client/oauth/keychain.ts';
export type { Revoked } from '../client/oauth/token-requests.ts';
export { keyFileOf } from '../client/own-store.ts';
export type { RecordedEvent } from '../client/recorded-events.ts';
export { sessionErrorIn } from '../client/sessions/errors.ts';
export type { KeptSession } from '../client/sessions/types.ts';
export { seconds } from '../core/duration.ts';
export { messageOf } from '../core/errors.ts';
export type { TransportLike } from '../core/instrument.ts';
export { instrument } from '../core/instrument.ts';
export { isObject } from '../core/json.ts';
export { saysTimeout } from '../core/link.ts';
export { UNSUPPORTED_VERSION } from '../core/message.ts';
export { redactUrls } from '../core/redact-urls.ts';
export type { FetchLike } from '../edge/fetch.ts';
export { MAX_MESSAGE } from '../edge/limit.ts';
export { limitLines, tooLargeRequest } from '../edge/stdio.ts';
export { StdioClientTransport } from '../edge/stdio-client.ts';
export { flowSeal } from '../server/flows/records.ts';
export { PAGE_HEADERS } from '../server/operator/console.ts';
export { sessionAt, storedFlows, storedSessions } from '../server/operator/records.ts';
export { readReports } from '../server/operator/reports.ts';
export { summarize } from '../server/operator/summary.ts';
export { copyEntries } from '../store/copy.ts';
export { checkStoreUrl, fileOf, openAsItIs } from '../store/open.ts';
export { entriesUnder } from '../store/page.ts';
export { plainEntries } from '../store/plain.ts';
export { fullPath, privateFile } from '../store/private-file.ts';
export { RedisConnection } from '../store/redis/connection.ts';
export * from '../wire/index.ts';
