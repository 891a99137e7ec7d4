import { ValiseError } from '../../errors.ts';
import { withErrand } from '../../link/edge-fetch.ts';
import { raise, takeTop } from '../../link/top.ts';
import {
  type Answer,
  isRequest,
  isResponse,
  type Result,
  type Response as RpcResponse,
} from '../../wire/index.ts';
import type { Connection } from '../connection.ts';
import { RequestError } from '../request-error.ts';
import type { Returning } from '../sessions/returning.ts';
import type { Kept } from './desk.ts';
import { sendAndWait } from './late-answers.ts';
import { ROUND } from './part.ts';
import { messagesOf } from './replies.ts';
import { type Round, retryOf } from './round.ts';

/** How long a call may take once it is answered, in seconds. */
const TIMEOUT = 300;

/** What came of an answer: the call's result, or its next round. An error of the server is thrown. */
export type Outcome = { readonly result: Result } | { readonly round: Round };

/** What sending an answer needs besides. */
export interface Delivery {
  /** True while the server has its next question open. */
  readonly isAsking: () => boolean;
  readonly sessions: Pick<Returning, 'naming'>;
}

/** Sends the answers of a kept round, and waits for what comes of them. */
export function send(
  connection: Connection,
  kept: Kept,
  answers: readonly Answer[],
  { isAsking, sessions }: Delivery,
): Promise<Outcome> {
  const { round, session } = kept;
  if (round.form !== 'state') return sendRetry(connection, kept, round, answers);
  const answer = { jsonrpc: '2.0', id: round.askId, ...answers[0] } as RpcResponse;
  return sendAnswer(connection, round, sessions.naming(connection, session?.id, answer), isAsking);
}

/** The call once more, with its answers. */
async function sendRetry(
  connection: Connection,
  { method, params, id }: Kept,
  round: Round & { readonly form: 'input' | 'dependent' },
  answers: readonly Answer[],
): Promise<Outcome> {
  if (method === undefined) throw notThere(id);
  const retry = retryOf({ jsonrpc: '2.0', id: 0, method, params }, round, answers);
  const result = await connection.request(method, retry.params, {
    timeout: TIMEOUT,
    ...(retry.top && { top: retry.top }),
  });
  const next = (result as { readonly [ROUND]?: Round })[ROUND];
  return next ? { round: next } : { result };
}

/** The answer alone, with the state that came with the question. */
async function sendAnswer(
  connection: Connection,
  { state, askId, callId }: Round & { readonly form: 'state' },
  answer: RpcResponse,
  isAsking: () => boolean,
): Promise<Outcome> {
  const message = raise(answer, { state });
  if (connection.target.kind !== 'http') {
    const send = (): Promise<void> => connection.link.send(message);
    const late = { timeout: TIMEOUT, isAsking };
    if (callId !== undefined)
      return { result: resultOf(await sendAndWait(connection, send, { callId, ...late })) };
    await send();
    throw notThere(String(askId));
  }
  let reply: Promise<Outcome | undefined> | undefined;
  await withErrand({ onReply: (http) => (reply = outcomeIn(http, connection)) }, () =>
    connection.link.send(message),
  );
  const outcome = await reply;
  if (outcome) return outcome;
  throw new ValiseError('no-answer', 'The server took the answer, and did not go on with the call.', {
    next: 'Make the call again.',
  });
}

/** Reads the HTTP answer to an answer: what concerns the call is ours, the rest is the client's. */
async function outcomeIn(reply: Response, connection: Connection): Promise<Outcome | undefined> {
  let outcome: Outcome | undefined;
  for await (const arrived of messagesOf(reply)) {
    const { message, top } = takeTop(arrived);
    if (isResponse(message)) outcome = { result: resultOf(message) };
    else if (isRequest(message) && top?.state !== undefined) {
      const { id, method, params } = message;
      const questions = [{ key: String(id), method, ...(params && { params }) }];
      outcome = { round: { form: 'state', questions, state: top.state, askId: id } };
    } else await connection.arrive(arrived);
  }
  return outcome;
}

function resultOf(response: RpcResponse): Result {
  if ('result' in response) return response.result;
  throw new RequestError('the call', response.error);
}

/** There is no such round. */
export function notThere(id: string): ValiseError {
  return new ValiseError('not-pending', `There is no pending round "${id}".`, {
    next: 'List what is pending: it may have been answered or dropped, or its time is over.',
  });
}
