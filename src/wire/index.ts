/**
 * Names, shapes, codes and eras of the four families, as pure data and pure functions. Readers are lenient and never
 * throw; writers are strict.
 *
 * @packageDocumentation
 */

export type { Json, JsonObject } from '../core/json.ts';
export { type Dict, dict, isShallow, MAX_DEPTH } from '../core/json.ts';
export {
  type ErrorResponse,
  type Id,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  isErrorResponse,
  isNotification,
  isRequest,
  isResponse,
  isResultResponse,
  METHOD_NOT_FOUND,
  type Message,
  type Meta,
  type Notification,
  type Params,
  type Request,
  type Response,
  type Result,
  type ResultResponse,
  type RpcError,
} from '../core/message.ts';
export {
  type Announced,
  announceClient,
  announceServer,
  type Families,
  knowsExtensions,
  mergeCapabilities,
  type Revocation,
  readAnnounced,
} from './announce.ts';
export { eraOf, FIRST_MODERN_VERSION, INTRODUCTIONS, isModernVersion, PROTOCOL_VERSIONS } from './codec.ts';
export { isKnownVersion, readServerMetadata, type ServerMetadata } from './continuity.ts';
export {
  type Answer,
  type DependentRequest,
  type DependentRequests,
  type DependentResponse,
  type DependentResponses,
  dependentRequests,
  dependentResponses,
  MAX_QUESTIONS,
  readDependentRequests,
  readDependentResponses,
  readTopState,
  withTopState,
} from './dependent.ts';
export {
  checkField,
  checkForm,
  choicesOf,
  type FormContent,
  type FormField,
  type FormProblem,
  type FormSchema,
} from './elicitation.ts';
export {
  type Outcome,
  outcomeIn,
  readSessionError,
  type SessionErrorReading,
  sessionConflict,
  sessionNotFound,
  sessionRequired,
  withOutcome,
} from './errors.ts';
export { EXTENSION_VERSIONS } from './extension-version.ts';
export {
  IDEMPOTENT,
  type IdempotencyReading,
  type IdempotencyRefusal,
  idempotencyError,
  MAX_IDEMPOTENCY_KEY,
  readIdempotency,
  readIdempotencyError,
  writeIdempotency,
} from './idempotency.ts';
export {
  INPUT_METHODS,
  type InputGiven,
  type InputRequest,
  type InputRequired,
  inputRequired,
  readInputGiven,
  readInputRequired,
  retryParams,
} from './input-required.ts';
export {
  applyState,
  carriesState,
  MAX_NAMES,
  methodPath,
  methodScopeMatches,
  readState,
  type State,
  type StateProblem,
  type StateReading,
  scopeCovers,
  writeState,
} from './jar.ts';
export {
  ATTRIBUTE_RULES,
  type Attributes,
  type AttributesReading,
  checkAttributes,
  checkMaxAge,
  MAX_AGE,
  readAttributes,
  type StateAttributes,
  writeAttributes,
} from './jar-attributes.ts';
export {
  isListening,
  type ListenPosition,
  type ListenRequest,
  listening,
  listenParams,
  type Poll,
  pollResult,
  readListenParams,
  readNotificationTag,
  readPollResult,
  tagNotification,
} from './listen.ts';
export {
  CARRIERS,
  type Carrier,
  CORE,
  DRAFTS,
  type Era,
  EXPIRES_AT,
  NAMES,
  type Names,
  type Scope,
} from './names.ts';
export { isProblem, type Problem, type ProblemCode } from './problem.ts';
export {
  isSession,
  isSessionId,
  MAX_SESSION_ID,
  readSession,
  SESSION_KEY,
  type SessionMeta,
  type SessionReading,
  writeSession,
} from './session.ts';
export {
  allocatesResources,
  createParams,
  listParams,
  listResult,
  MAX_LABEL,
  readCreateParams,
  readListParams,
  readListResult,
  readSessionResult,
  readTargetParams,
  type SessionPage,
  type SessionSummary,
  type SessionVerb,
  sessionMethod,
  sessionResult,
  targetParams,
} from './session-methods.ts';
export { knowsSessionExtension, sessionHeaders } from './spelling.ts';
