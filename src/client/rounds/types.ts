import type { Era, Params, Result } from '../../wire/index.ts';

/** A question that a server has asked and nobody has answered yet. */
export interface PendingQuestion {
  readonly key: string;
  /** `elicitation/create`, `sampling/createMessage` or `roots/list`. */
  readonly method: string;
  readonly params?: Params;
}

/** A call that waits for answers, also across restarts of this program. */
export interface PendingRound {
  readonly id: string;
  /** Where the server is: its URL, or the command that starts it. */
  readonly server: string;
  /** The call that it belongs to, where that is known. */
  readonly call: { readonly method: string; readonly params?: Params } | undefined;
  /** The era of the protocol that it was asked in, and is to be answered in; absent where that is not known. */
  readonly era?: Era;
  /** The data-layer session that the call was made in, and goes on in. */
  readonly session?: { readonly id: string; readonly label: string | undefined };
  readonly questions: readonly PendingQuestion[];
  readonly since: Date;
  /** When the server stops taking answers, if it says so. The call leaves the list then. */
  readonly expiresAt?: Date;
}

/**
 * Answers by the question's key: a result as the method has it (`{ action: 'accept', content: { … } }` for an
 * elicitation), or an error.
 */
export type Answers = { readonly [key: string]: unknown };

/** How a call went on after its answers: it is done, or it asks again. */
export type Continued =
  | { readonly done: true; readonly result: Result }
  | { readonly done: false; readonly round: PendingRound };

/** How a round is answered. */
export interface AnswerOptions {
  /** The client to answer through, where the server has moved: another address is not taken for it otherwise. */
  readonly client?: object | undefined;
}

/** Calls that wait for answers. They are kept in the store until they are answered, dropped or expired. */
export interface Pending {
  /** All that wait, oldest first. */
  list(): Promise<readonly PendingRound[]>;
  /**
   * Answers a round and goes on with its call. The server must be connected. Without `answers`, the connected client's
   * own handlers are asked, until the call is done. A round of one question may be answered without naming it.
   *
   * @example
   * ```ts
   * const [round] = await valise.pending.list();
   * const answer = { action: 'accept', content: { resolution: 'Fixed' } };
   * const next = await valise.pending.answer(round.id, { resolution: answer });
   * ```
   */
  answer(id: string, answers?: Answers, options?: AnswerOptions): Promise<Continued>;
  /** Forgets a round; the server never hears of it again. False where there is none. */
  drop(id: string): Promise<boolean>;
}
