/**
 * Valise for clients: keeps the state that servers set and sends it back, for clients of either SDK major over any
 * transport.
 *
 * @packageDocumentation
 */

export type { ValiseErrorCode } from '../error-codes.ts';
export { ValiseError } from '../errors.ts';
export type { Listener } from '../events.ts';
export type { StdioCommand } from '../link/stdio-client.ts';
export { fileStore } from '../store/file/store.ts';
export type { Store } from '../store/types.ts';
export type { Attributes, Json, Scope } from '../wire/index.ts';
export type { ConnectionInfo, Connections, LogoutOptions, RefreshOptions } from './connection/connections.ts';
export type { HttpOptions } from './connection/http.ts';
export {
  asClientStateStore,
  type ClientStateStore,
  type Maybe,
  type ServerMetadata,
  type TokenInfo,
} from './connection/state-store.ts';
export type { ClientEvents, ClientWarningCode, ContinuityEvents } from './events.ts';
export { LEFT_OPEN, LeaveOpen, NotDeliveredError } from './flows/errors.ts';
export type {
  AnswerOptions,
  Answers,
  Continued,
  Pending,
  PendingQuestion,
  PendingRound,
} from './flows/types.ts';
export type { HostProvider } from './host/host-provider.ts';
export type { HostTransport } from './host/host-transport.ts';
export type {
  Jar,
  JarEntry,
  JarEvents,
  JarExport,
  JarFilter,
  JarImported,
  JarQuotas,
  JarRefusal,
  JarSubject,
} from './jar/types.ts';
export type { AuthOptions } from './oauth/options.ts';
export type { Revoked } from './oauth/revocation.ts';
export type { KeptIn } from './oauth/secrets.ts';
export { DEFAULT_STORE } from './own-store.ts';
export type { RecordedEvent, RecordedEvents, RecordOptions } from './recorded-events.ts';
export { RequestError } from './request-error.ts';
export { SessionConflictError, SessionGoneError } from './sessions/errors.ts';
export type {
  ClientSession,
  ClientSessions,
  CreateOptions,
  KeptSession,
  Listening,
  ListenOptions,
  NotificationListener,
  SessionBehaviour,
  SessionEvents,
  SessionListing,
  SessionsAccess,
} from './sessions/types.ts';
export type { NamedServer } from './target.ts';
export {
  type AuthProviderOptions,
  type ClientLike,
  type ClientValise,
  type ClientValiseOptions,
  type ConnectOptions,
  type HostOptions,
  openValise,
  type TransportOptions,
} from './valise.ts';
