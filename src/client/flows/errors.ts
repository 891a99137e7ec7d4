import { messageOf, ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { statusOf } from '../connection/errors.ts';

/** The error code with which a handler leaves a question open. It is outside the ranges that JSON-RPC and MCP reserve. */
export const LEFT_OPEN = -31_061;

/**
 * Leaves the question open if a client's elicitation or sampling handler throws it. The call ends with an error that names
 * the pending round in `data.pending`. The server receives nothing, and `valise.pending` keeps the question until it is
 * answered.
 *
 * @example
 * ```ts
 * client.setRequestHandler('elicitation/create', async () => {
 *   throw new LeaveOpen(); // nobody is here to ask
 * });
 * ```
 */
export class LeaveOpen extends Error {
  readonly code = LEFT_OPEN;

  constructor() {
    super('The question is left open.');
    this.name = 'LeaveOpen';
  }
}

/** Thrown if the answer to a round, or its outcome, did not arrive. The round is still stored. */
export class NotDeliveredError extends ValiseError {
  readonly data: { readonly pending: string };

  constructor(pending: string, cause: unknown) {
    const reason = messageOf(cause);
    super('not-delivered', `The answer could not be delivered: ${reason}`, {
      next: `Try again with valise.pending.answer(${JSON.stringify(pending)}, …).`,
      cause,
    });
    this.data = { pending };
  }
}

/** Ends a call with an error response. */
export class FlowError extends Error {
  readonly code: number;
  readonly data: object | undefined;

  constructor(code: number, message: string, data?: object) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Returns the error of a call whose question was left open. Without an id, the question could not be stored. */
export function leftOpen(id: string | undefined): {
  readonly message: string;
  readonly data: { readonly pending?: string };
} {
  if (id === undefined)
    return { message: 'The question was left open but could not be stored. Repeat the call.', data: {} };
  return {
    message: `The call waits for an answer. Give it with valise.pending.answer(${JSON.stringify(id)}, …).`,
    data: { pending: id },
  };
}

/** The error of a call whose question expired before the answer arrived. There is nothing left to answer. */
export const EXPIRED = {
  code: -32_602,
  message: 'The question had expired when the answer arrived. Repeat the call.',
} as const;

/** How our servers reject the answer to an expired question. */
const EXPIRED_TEXT = /invalid_request_state|Invalid or expired requestState/;

/**
 * Whether a server rejected an answer because its question has expired. Over HTTP, the status of the request that carried
 * it says so.
 */
export function isExpired(error: unknown): boolean {
  const { data } = (error ?? {}) as { readonly data?: unknown };
  const body = isObject(data) ? JSON.stringify(data) : '';
  return statusOf(error) === 400 && EXPIRED_TEXT.test(`${messageOf(error)} ${body}`);
}

/** Returns the error for a pending question that does not exist. */
export function notPending(id: string): ValiseError {
  return new ValiseError('not-found', `There is no pending round "${id}".`, {
    next: 'List the pending questions. It may have been answered or dropped, or it has expired.',
  });
}

/** Returns the error for a pending question that another process or call is answering. */
export function beingAnswered(id: string): ValiseError {
  return new ValiseError('already-done', `The pending round "${id}" is being answered already.`, {
    next: 'Wait for it, then list the pending questions.',
  });
}
