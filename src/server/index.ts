export type { ValiseErrorCode } from '../error-codes.ts';
export { ValiseError } from '../errors.ts';
export type { Json } from '../json.ts';
export type { CallerFacts } from './caller.ts';
export type { Conversation } from './carriers/conversation.ts';
export type { Fallback } from './carriers/fallback.ts';
export type { Handles } from './carriers/handles.ts';
export { keepsState } from './carriers/keeps-state.ts';
export type { ServerEvents, ServerListeners } from './events.ts';
export { type FlowCodec, type FlowContext, plainCodec } from './flows/codec.ts';
export type { FlowCounts } from './flows/counters.ts';
export { FlowError, type FlowErrorCode } from './flows/errors.ts';
export type { AnswerOf, AskSchema, JsonSchema } from './flows/form.ts';
export type { FlowLimits, FlowShare } from './flows/limits.ts';
export type { FlowsApi } from './flows/public.ts';
export type { FlowsOptions } from './flows/settings.ts';
export type {
  Effect,
  Flow,
  FlowMode,
  FlowOptions,
  FormQuestion,
  OnceOptions,
  PageQuestion,
  QuestionKind,
  Reaction,
  Root,
  Sample,
  UntilOptions,
} from './flows/types.ts';
export type { IdempotencyApi } from './idempotency/idempotency.ts';
export {
  type IdempotencyLimits,
  type IdempotencyOptions,
  type IdempotentOptions,
  idempotent,
} from './idempotency/options.ts';
export type { JarOptions } from './jar/jar.ts';
export type { JarDeclarations, JarKey, KeyDeclarations, KeySettings } from './jar/key.ts';
export type { StandardSchema } from './jar/schema.ts';
export type { JarScope, Printable, ServerJar, TypedJarScope, TypedServerJar } from './jar/types.ts';
export type { AuthInfo, Principal } from './principal.ts';
export type { BuildServer, FactoryOptions } from './reuse/factory.ts';
export type { ServerLike } from './server-like.ts';
export { type Gated, sessionRequired } from './sessions/gate.ts';
export type { EndedSession, EndReason, NewListener, NewSession } from './sessions/hooks.ts';
export type { SessionsOptions } from './sessions/options.ts';
export type { SessionsApi } from './sessions/public.ts';
export type { Session, SessionNamespace, SessionValues, TypedSession } from './sessions/session.ts';
export { createValise, type ServerValise, type TypedServerValise } from './valise.ts';
export type { ServerValiseOptions } from './valise-options.ts';
