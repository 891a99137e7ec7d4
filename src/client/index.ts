/**
 * Valise for clients: keeps the state that servers set and sends it back, for clients of either SDK major over any
 * transport.
 *
 * @packageDocumentation
 */

export type { ValiseErrorCode } from '../core/error-codes.ts';
export { ValiseError } from '../core/errors.ts';
export type { StdioCommand } from '../edge/stdio-client.ts';
export { fileStore } from '../store/file/store.ts';
export type { Store } from '../store/types.ts';
export type { Json } from '../wire/index.ts';
export type { ConnectionInfo, Connections } from './connection/connections.ts';
export type { HttpOptions } from './connection/http.ts';
export {
  asClientStateStore,
  type ClientStateStore,
  type ServerMetadata,
  type TokenInfo,
} from './connection/state-store.ts';
export { RequestError } from './errors.ts';
export type { ClientEvents } from './events.ts';
export { LEFT_OPEN, LeaveOpen, NotDeliveredError } from './flows/errors.ts';
export type { Answers, Pending, PendingQuestion, PendingRound } from './flows/types.ts';
export type { HostTransport } from './host/host-transport.ts';
export type { Jar, JarEntry, JarFilter, JarQuotas } from './jar/types.ts';
export type { AuthOptions } from './oauth/options.ts';
export type {
  ClientLike,
  ClientValiseOptions,
  ConnectOptions,
  HostOptions,
  TransportOptions,
} from './options.ts';
export type { RecordedEvents } from './recorded-events.ts';
export { SessionConflictError, SessionGoneError } from './sessions/errors.ts';
export type { ClientSession, ClientSessions } from './sessions/types.ts';
export { type ClientValise, openValise } from './valise.ts';
