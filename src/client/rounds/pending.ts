import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { withErrand } from '../../link/edge-fetch.ts';
import { raise, takeTop } from '../../link/top.ts';
import {
  type Answer,
  isRequest,
  isResponse,
  type Result,
  type ResultResponse,
  type Response as RpcResponse,
} from '../../wire/index.ts';
import type { Connection } from '../connection.ts';
import { RequestError } from '../request-error.ts';
import { targetKey } from '../target.ts';
import { type Kept, type RoundDesk, shown } from './desk.ts';
import { answerIn } from './driver.ts';
import { ROUND } from './part.ts';
import { messagesOf } from './replies.ts';
import { type Round, retryOf } from './round.ts';
import type { Answers, Continued, Pending } from './types.ts';

const CONNECTION_CLOSED = -32_000;

/** How long a call may take once it is answered, in seconds. */
const TIMEOUT = 300;

/** What came of an answer: the call's result, or its next round. An error of the server is thrown. */
type Outcome = { readonly result: Result } | { readonly round: Round };

/** Goes on with calls that wait for answers. */
export function pendingRounds(desk: RoundDesk, connections: ReadonlySet<Connection>): Pending {
  const connectionTo = (kept: Kept): Connection => {
    for (const connection of connections) if (targetKey(connection.target) === kept.server) return connection;
    throw new ValiseError(
      'not-connected',
      `The server of the pending round "${kept.id}" is not connected: ${kept.server}.`,
      {
        next: 'Connect to it, then answer.',
      },
    );
  };

  const answerOne = async (id: string, answers: Answers | undefined): Promise<Continued> => {
    const kept = await desk.find(id);
    if (!kept) throw notThere(id);
    const connection = connectionTo(kept);
    const given = await givenTo(kept, answers, connection);
    const outcome = await send(connection, kept, given).catch(async (error: unknown) => {
      // The server has answered the call, if only with an error: there is nothing left to answer.
      if (error instanceof RequestError && error.rpcCode !== CONNECTION_CLOSED) await desk.drop(id);
      throw error;
    });
    if ('result' in outcome) {
      await desk.drop(id);
      return { done: true, result: outcome.result };
    }
    await desk.keep(connection, callIn(kept), outcome.round, id);
    return { done: false, round: shown({ ...kept, round: outcome.round, since: Date.now() }) };
  };

  return {
    list: async () => (await desk.all()).map(shown),
    drop: (id) => desk.drop(id),
    async answer(id, answers) {
      const lease = await desk.lease(id);
      if (!lease) {
        throw new ValiseError(
          'answered-elsewhere',
          `The pending round "${id}" is being answered by another process.`,
          {
            next: 'Wait for it, then list what is pending.',
          },
        );
      }
      try {
        return await answerOne(id, answers);
      } finally {
        await lease.release();
      }
    },
  };
}

function callIn({
  method,
  params,
}: Kept): { readonly method: string; readonly params?: Kept['params'] } | undefined {
  return method === undefined ? undefined : { method, params };
}

/** The answers in the order of the questions, from the caller or from the client's own handlers. */
async function givenTo(
  { id, round }: Kept,
  answers: Answers | undefined,
  connection: Connection,
): Promise<Answer[]> {
  if (!answers) {
    return Promise.all(
      round.questions.map(async ({ method, params }) => answerIn(await connection.askClient(method, params))),
    );
  }
  return round.questions.map(({ key }) => {
    // A round of one question may be answered without naming it.
    const answer =
      answers[key] ??
      (round.questions.length === 1 && 'action' in answers ? (answers as unknown as Result) : undefined);
    if (answer === undefined) {
      throw new ValiseError('answers-missing', `The pending round "${id}" also asks "${key}".`, {
        next: 'Answer all of its questions at once.',
      });
    }
    return isError(answer)
      ? { error: answer.error }
      : 'result' in answer && isObject(answer['result'])
        ? { result: answer['result'] }
        : { result: answer as Result };
  });
}

function isError(
  answer: Result | Answer,
): answer is Answer & { readonly error: { readonly code: number; readonly message: string } } {
  return 'error' in answer && isObject(answer['error']) && typeof answer['error']['code'] === 'number';
}

function send(connection: Connection, kept: Kept, answers: readonly Answer[]): Promise<Outcome> {
  const { round } = kept;
  return round.form === 'state'
    ? sendAnswer(connection, round, answers[0])
    : sendRetry(connection, kept, round, answers);
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
  answer: Answer | undefined,
): Promise<Outcome> {
  const response = { jsonrpc: '2.0', id: askId, ...answer } as ResultResponse;
  const message = raise(response, { state });
  if (connection.target.kind !== 'http') {
    const waiting = callId === undefined ? undefined : connection.expect(callId);
    await connection.link.send(message);
    if (!waiting) throw notThere(String(askId));
    return { result: resultOf(await waiting) };
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
    } else connection.arrive(arrived);
  }
  return outcome;
}

function resultOf(response: RpcResponse): Result {
  if ('result' in response) return response.result;
  throw new RequestError('the call', response.error);
}

function notThere(id: string): ValiseError {
  return new ValiseError('not-pending', `There is no pending round "${id}".`, {
    next: 'List what is pending: it may have been answered or dropped, or its time is over.',
  });
}
