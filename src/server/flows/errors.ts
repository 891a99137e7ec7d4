import { ValiseError, type ValiseErrorOptions } from '../../core/errors.ts';
import type { RpcError } from '../../wire/index.ts';

/** The codes of a {@link FlowError}. */
export type FlowErrorCode =
  /** The user declined, or closed the question without an answer. */
  | 'ask-declined'
  | 'ask-cancelled'
  /** The client answered the question with an error. */
  | 'ask-failed'
  /** The answer does not fit the question's schema. */
  | 'answer-invalid'
  /** Nobody answered in time. */
  | 'timeout'
  /** The client cannot be asked this kind of question. */
  | 'client-cannot'
  /** The client cannot be asked on this connection. */
  | 'no-carrier'
  /** The call has asked as many questions as it may, or the caller has reached a limit of the server. */
  | 'limit-reached'
  /** Mistakes in the handler. */
  | 'invalid-flow'
  | 'too-large'
  | 'invalid-schema'
  /** The flow was begun by another version of the handler. */
  | 'other-version'
  /** An effect was cut off, and it is unknown whether it took place. */
  | 'outcome-unknown'
  /** The flow's server has no Valise installed. */
  | 'outside-request'
  /** The setting needs a store, and none is configured. */
  | 'no-store';

/** Options of a {@link FlowError}. */
export interface FlowErrorOptions extends ValiseErrorOptions {
  /** The key of the step that the error is about. */
  readonly key?: string;
  /** The error that the client gets if the handler lets this one through. Without it, the SDK's default applies. */
  readonly rpc?: RpcError;
}

/** Thrown when a flow cannot continue, or the user does not want it to. Handlers may catch it like any other error. */
export class FlowError extends ValiseError {
  declare readonly code: FlowErrorCode;
  readonly key: string | undefined;
  /** The error that is sent in place of the handler's own answer. It is not part of the public API. */
  readonly rpc: RpcError | undefined;

  constructor(code: FlowErrorCode, message: string, { key, rpc, ...options }: FlowErrorOptions = {}) {
    super(code, message, options);
    this.key = key;
    this.rpc = rpc;
    Object.defineProperty(this, 'rpc', { enumerable: false });
  }
}
