export { ValiseError } from '../errors.ts';
export type { ServerEvents, ServerListeners } from './events.ts';
export type { AuthInfo, Principal } from './principal.ts';
export type { ServerLike } from './server-like.ts';
export type { KeyDeclarations, KeySettings, StateDeclarations, StateKey } from './state/key.ts';
export type { StandardSchema } from './state/schema.ts';
export type { StateOptions } from './state/state.ts';
export type { RequestState, StateScope } from './state/types.ts';
export { createValise, type ServerValise, type ServerValiseOptions } from './valise.ts';
