import { ValiseError } from '../../errors.ts';
import type { HttpHints } from '../../link/edge-fetch.ts';
import { raise } from '../../link/top.ts';
import type { Answer, Id, Message, Result, Response as RpcResponse } from '../../wire/index.ts';
import type { Call, CallForm } from '../call.ts';
import type { Connection } from '../connection.ts';
import { hasHttpEdge } from '../http-edge.ts';
import type { Returning } from '../sessions/returning.ts';
import { handedOver } from './own-call.ts';
import type { Kept } from './pending-store.ts';
import { goOnWith } from './replies.ts';
import { type Round, retryOf } from './round.ts';

/** How long a call may take once it is answered, in seconds. */
const TIMEOUT = 300;

/** What came of an answer: the call's result, or its next round. An error of the server is thrown. */
export type Outcome = { readonly result: Result } | { readonly round: Round };

/** Sends the answers of a kept round, and waits for what comes of them. */
export async function send(
  connection: Connection,
  kept: Kept,
  answers: readonly Answer[],
  sessions: Pick<Returning, 'naming'>,
): Promise<Outcome> {
  const { round, params, session } = kept;
  // Where the question came without its call, any that may be asked stands for it: it is not sent.
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

/** The answer alone, with the state that came with the question. */
function answerTo(
  { target, link: { transport } }: Connection,
  id: string,
  { state, askId, callId }: Round & { readonly form: 'state' },
  answer: (id: Id) => RpcResponse,
): NonNullable<CallForm['answer']> {
  const message = (): Message => raise(answer(askId), { state });
  // Over HTTP what comes of it comes on its own answer, elsewhere only the call's id tells.
  const wireId = target.kind === 'http' ? undefined : callId;
  if (target.kind === 'http' ? hasHttpEdge(transport) : wireId !== undefined) return { message, wireId };
  throw new ValiseError('no-answer', `What comes of the pending round "${id}" would not be heard here.`, {
    next:
      target.kind === 'http'
        ? 'Connect over valise.http(url), then answer.'
        : 'Drop it, and make the call again.',
  });
}

/** Has the HTTP answer to an answer read: the rest of the call comes on it. */
export function followed(call: Call): HttpHints {
  const lost = (what: string): void =>
    call.leave(
      new ValiseError('no-answer', what, {
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

/** There is no such round. */
export function notThere(id: string): ValiseError {
  return new ValiseError('not-pending', `There is no pending round "${id}".`, {
    next: 'List what is pending: it may have been answered or dropped, or its time is over.',
  });
}
