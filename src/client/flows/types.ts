import type { Era, Params, Result } from '../../wire/index.ts';

/** A question from a server that has not been answered yet. */
export interface PendingQuestion {
  readonly key: string;
  /** `elicitation/create`, `sampling/createMessage` or `roots/list`. */
  readonly method: string;
  readonly params?: Params;
}

/** A call that waits for answers, including after a restart of this program. */
export interface PendingRound {
  readonly id: string;
  /** The server's URL, or the command that starts it. */
  readonly server: string;
  /** The call that the questions belong to, if it is known. */
  readonly call: { readonly method: string; readonly params?: Params } | undefined;
  /** The protocol era in which the server asked and must be answered. Absent if unknown. */
  readonly era?: Era;
  /** The data-layer session in which the call was made and will continue. */
  readonly session?: { readonly id: string; readonly label: string | undefined };
  readonly questions: readonly PendingQuestion[];
  readonly since: Date;
  /** When the server stops accepting answers, if it says so. The call then leaves the list. */
  readonly expiresAt?: Date;
}

/**
 * Answers by question key. Each is a result in the form its method defines (`{ action: 'accept', content: { … } }` for an
 * elicitation), or an error.
 */
export type Answers = { readonly [key: string]: unknown };

/** The outcome of answering a round: the call is done, or the server asks again. */
export type Continued =
  | { readonly done: true; readonly result: Result }
  | { readonly done: false; readonly round: PendingRound };

/** Options for {@link Pending.answer}. */
export interface AnswerOptions {
  /** The client to answer through if the server has moved. By default, an answer is never sent to another address. */
  readonly client?: object | undefined;
}

/** Calls that wait for answers. The store keeps them until they are answered, dropped or expired. */
export interface Pending {
  /** Lists all waiting calls, oldest first. */
  list(): Promise<readonly PendingRound[]>;
  /**
   * Answers a round and continues its call. The server must be connected. Without `answers`, Valise asks the connected
   * client's own handlers until the call is done. A round with one question may be answered without the question's key.
   *
   * @example
   * ```ts
   * const [round] = await valise.pending.list();
   * const answer = { action: 'accept', content: { resolution: 'Fixed' } };
   * const next = await valise.pending.answer(round.id, { resolution: answer });
   * ```
   */
  answer(id: string, answers?: Answers, options?: AnswerOptions): Promise<Continued>;
  /** Forgets a round without telling the server. Returns false if there is no such round. */
  drop(id: string): Promise<boolean>;
}
