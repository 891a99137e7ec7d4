import { ValiseError } from '../../errors.ts';
import type { HttpHints } from '../../link/edge-fetch.ts';
import { raise } from '../../link/top.ts';
import type { Answer, Id, Message, Result, Response as RpcResponse } from '../../wire/index.ts';
import type { Call, CallForm } from '../call.ts';
import { hasHttpEdge } from '../connection/http.ts';
import type { Connection } from '../connection.ts';
import type { Returning } from '../sessions/middleware.ts';
import { handedOver } from './own-call.ts';
import type { Kept } from './pending-store.ts';
import { goOnWith } from './replies.ts';
import { type Round, retryOf } from './round.ts';

/** The timeout of a call once it is answered, in seconds. */
const TIMEOUT = 300;

/** The outcome of an answer: the call's result, or its next round. Server errors are thrown. */
export type Outcome = { readonly result: Result } | { readonly round: Round };

/** Sends the answers to a stored round and waits for the outcome. */
export async function send(
  connection: Connection,
  kept: Kept,
  answers: readonly Answer[],
  sessions: Pick<Returning, 'naming'>,
): Promise<Outcome> {
  const { round, params, session } = kept;
  // If the question came without its call, any method that may ask can replace it, because the request is not sent.
  const { method = round.form === 'state' ? 'tools/call' : undefined } = kept;
  if (method === undefined) throw notThere(kept.id);
  const naming = (id: Id): RpcResponse =>
    sessions.naming(connection, session?.id, { jsonrpc: '2.0', id, ...answers[0] } as RpcResponse);
  const retry =
    round.form === 'state'
      ? { params, answer: answerTo(connection, kept.id, round, naming) }
      : retryOf({ jsonrpc: '2.0', id: 0, method, params }, round, answers);
  const { params: given, ...form } = retry;
  const result = await connection.request(method, given, { timeout: TIMEOUT, ...form });
  const next = handedOver(result);
  return next ? { round: next } : { result };
}

/** Returns only the answer, with the state that came with the question. */
function answerTo(
  { target, link: { transport } }: Connection,
  id: string,
  { state, askId, callId }: Round & { readonly form: 'state' },
  answer: (id: Id) => RpcResponse,
): NonNullable<CallForm['answer']> {
  const message = (): Message => raise(answer(askId), { state });
  // Over HTTP the outcome arrives on the response to the answer. On other transports only the call's id identifies it.
  const wireId = target.kind === 'http' ? undefined : callId;
  if (target.kind === 'http' ? hasHttpEdge(transport) : wireId !== undefined) return { message, wireId };
  throw new ValiseError('not-delivered', `What comes of the pending round "${id}" would not be heard here.`, {
    next:
      target.kind === 'http'
        ? 'Connect with valise.connect(client, url), then answer.'
        : 'Drop it, and make the call again.',
  });
}

/** Returns hints that read the HTTP response to an answer, because the rest of the call arrives on it. */
export function followed(call: Call): HttpHints {
  const lost = (what: string): void =>
    call.leave(
      new ValiseError('not-delivered', what, {
        next: 'The round stays open: answer it again, or drop it and make the call again.',
      }),
    );
  return {
    onReply: (reply) =>
      void goOnWith(call.connection, call, reply).then((why) => why !== undefined && lost(why)),
    onResponse: ({ ok, status, body }) => {
      if (ok && (status !== 200 || !body))
        lost('The server took the answer, and did not go on with the call.');
    },
  };
}

/** Returns the error for a round that does not exist. */
export function notThere(id: string): ValiseError {
  return new ValiseError('not-found', `There is no pending round "${id}".`, {
    next: 'List what is pending: it may have been answered or dropped, or its time is over.',
  });
}
