export { ValiseError } from '../errors.ts';
export type { Json } from '../json.ts';
export type { CallerFacts } from './caller.ts';
export type { ServerEvents, ServerListeners } from './events.ts';
export { plainCodec, type RoundCodec, type RoundState } from './flow/codec.ts';
export type { RoundCounts } from './flow/counters.ts';
export { FlowError, type FlowErrorCode } from './flow/errors.ts';
export type { AnswerOf, AskSchema, JsonSchema } from './flow/form.ts';
export type { RoundLimits, RoundShare } from './flow/limits.ts';
export type { RoundsApi } from './flow/public.ts';
export type { RoundsOptions } from './flow/settings.ts';
export type {
  Effect,
  Flow,
  FlowOptions,
  FormQuestion,
  OnceOptions,
  PageQuestion,
  QuestionKind,
  Reaction,
  Root,
  RoundMode,
  Sample,
  UntilOptions,
} from './flow/types.ts';
export type { AuthInfo, Principal } from './principal.ts';
export type { BuildServer, FactoryOptions } from './reuse/factory.ts';
export type { ServerLike } from './server-like.ts';
export { type Gated, sessionRequired } from './sessions/gate.ts';
export type { EndedSession, EndReason, NewListener, NewSession } from './sessions/hooks.ts';
export type { SessionsOptions } from './sessions/options.ts';
export type { SessionsApi } from './sessions/public.ts';
export type { Session, SessionNamespace, SessionValues, TypedSession } from './sessions/session.ts';
export type { KeyDeclarations, KeySettings, StateDeclarations, StateKey } from './state/key.ts';
export type { StandardSchema } from './state/schema.ts';
export type { StateOptions } from './state/state.ts';
export type { Printable, RequestState, StateScope, TypedScope, TypedState } from './state/types.ts';
export {
  createValise,
  type ServerValise,
  type ServerValiseOptions,
  type TypedServerValise,
} from './valise.ts';
