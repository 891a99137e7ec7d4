import { ValiseError, type ValiseErrorOptions } from '../../errors.ts';
import type { RpcError } from '../../wire/index.ts';

/** What can go wrong in a flow. */
export type FlowErrorCode =
  /** The user declined, or closed the question without an answer. */
  | 'ask-declined'
  | 'ask-cancelled'
  /** The client answered the question with an error. */
  | 'ask-failed'
  /** The answer does not fit the question's schema. */
  | 'answer-invalid'
  /** Nobody answered in time. */
  | 'ask-timeout'
  /** The client cannot be asked this kind of question. */
  | 'client-cannot'
  /** There is no way to ask on this connection. */
  | 'no-carrier'
  /** The call has asked as often as it may. */
  | 'too-many-questions'
  /** This caller, or all callers together, have as much open as the server's limits allow. */
  | 'too-many-open'
  /** Mistakes in the handler. */
  | 'same-key'
  | 'not-deterministic'
  | 'journal-too-large'
  | 'not-json'
  | 'bad-schema'
  /** The flow was begun by another version of the handler. */
  | 'other-version'
  /** An effect was cut off in the middle, and nobody knows whether it took place. */
  | 'once-cut-off'
  /** The flow's server has no Valise installed. */
  | 'not-installed'
  /** The setting needs a store, and there is none. */
  | 'no-store';

/** What {@link FlowError} carries besides its message. */
export interface FlowErrorOptions extends ValiseErrorOptions {
  /** The key of the step that it is about. */
  readonly key?: string;
  /** What the client gets where the handler lets this error out; otherwise what the SDK makes of any error. */
  readonly rpc?: RpcError;
}

/** A flow cannot go on, or the user does not want it to. Handlers may catch it like any other error. */
export class FlowError extends ValiseError {
  declare readonly code: FlowErrorCode;
  readonly key: string | undefined;
  /** Not part of the surface: what goes out in place of the handler's own answer. */
  readonly rpc: RpcError | undefined;

  constructor(code: FlowErrorCode, message: string, { key, rpc, ...options }: FlowErrorOptions = {}) {
    super(code, message, options);
    this.key = key;
    this.rpc = rpc;
    Object.defineProperty(this, 'rpc', { enumerable: false });
  }
}

/** Ends the handler's call once it has asked: the answer that the SDK makes of it never leaves. */
class Suspended extends Error {
  override readonly name = 'Suspended';
}

/** The one there is: it says nothing about where it comes from, and a trace of the stack for each would cost. */
export const SUSPENDED: Error = new Suspended('Waiting for the client.');
