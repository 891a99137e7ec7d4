import { ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { checkArgument, checkOptions, type Taken, type TakenBy } from '../../core/options.ts';
import { redactUrls } from '../../core/redact-urls.ts';
import { type Answer, type Id, outcomeIn, type Response, type Result } from '../../wire/index.ts';
import type { Connection } from '../connection.ts';
import { CONNECTION_CLOSED, RequestError } from '../errors.ts';
import { targetKey } from '../identity/target.ts';
import { SessionGoneError } from '../sessions/errors.ts';
import type { Returning } from '../sessions/middleware.ts';
import { answerIn, resume } from './answering.ts';
import { beingAnswered, isExpired, LEFT_OPEN, notPending } from './errors.ts';
import type { Flows } from './middleware.ts';
import { type PendingRecord, type PendingStore, shown } from './pending-store.ts';
import { expiryOf, type Questions, retryOf } from './questions.ts';
import { answerTo, handedOver } from './state-carrier.ts';
import type { AnswerOptions, Answers, Continued, Pending } from './types.ts';

const ANSWERS: Taken = ['an object with the answer to each question, by its key', isObject];
const ANSWER: TakenBy<AnswerOptions> = { client: ['a connected client', isObject] };

/** Lists, continues and drops the calls that wait for answers. */
export function pendingQuestions(
  pendingStore: PendingStore,
  flows: Pick<Flows, 'clients' | 'waitsFor'>,
): Pending {
  const clientOf = async (
    record: PendingRecord,
    chosen: object | undefined,
  ): Promise<readonly [Connection, object]> => {
    if (await flows.waitsFor(record.id)) throw beingAnswered(record.id);
    let isOthers = false;
    // Several connections may share one target key, such as servers in this process.
    const requester = chosen ? undefined : pendingStore.requesterOf(record.id);
    const asking = requester && flows.clients.get(requester);
    if (requester && asking) return [requester, asking];
    for (const entry of flows.clients) {
      const [connection, client] = entry;
      if (chosen ? client !== chosen : targetKey(connection.target) !== record.server) continue;
      isOthers = !connection.account.owns(record.account);
      if (isOthers) continue;
      // An older server would not recognize the question's state, and would run the call as if for the first time.
      if (record.codec?.asksByResult && !connection.codec.asksByResult) throw otherVersion(record);
      return entry;
    }
    if (isOthers) throw otherAccount(record);
    throw new ValiseError(
      'not-connected',
      `The server of the pending round "${record.id}" is not connected: ${redactUrls(record.server)}.`,
      { next: 'Connect to it, then answer.' },
    );
  };

  /** Runs `work` in the call's session. If that ends the call, the question is dropped. */
  const within = async <Value>(
    connection: Connection,
    { id, session, version }: PendingRecord,
    work: () => Promise<Value>,
  ): Promise<Value> => {
    try {
      return await (session ? pendingStore.sessions.inside(connection, session, work) : work());
    } catch (error) {
      if (isOver(error)) await pendingStore.tryDrop(id, version);
      throw error;
    }
  };

  const answerOne = async (
    connection: Connection,
    record: PendingRecord,
    answers: readonly Answer[],
  ): Promise<Continued> => {
    const outcome = await within(connection, record, () =>
      send(connection, record, answers, pendingStore.sessions),
    );
    const { method, params, codec, session } = record;
    if ('result' in outcome) {
      await pendingStore.tryDrop(record.id, record.version);
      return { done: true, result: outcome.result };
    }
    const call = method === undefined ? undefined : { method, params, codec, session };
    await pendingStore.keep(connection, call, outcome.asked, record.id);
    const { asked } = outcome;
    return {
      done: false,
      round: shown({ ...record, asked, since: Date.now(), expiresAt: expiryOf(asked) }),
    };
  };

  /** Answers with the client's own handlers until the call is done. */
  const answerAll = async (id: string, chosen: object | undefined): Promise<Continued> => {
    for (;;) {
      const record = await pendingStore.find(id);
      if (!record) throw notPending(id);
      const [connection, client] = await clientOf(record, chosen);
      const { method } = record;
      // On 2026-07-28 only the SDK may ask its handlers, and it answers the question by itself.
      if (connection.codec.asksByResult && record.asked.carrier === 'input' && method !== undefined) {
        return {
          done: true,
          result: await within(connection, record, () => resume(client, { ...record, method })),
        };
      }
      const continued = await answerOne(connection, record, await askClient(connection, record));
      if (continued.done) return continued;
    }
  };

  return {
    list: async () => (await pendingStore.all()).map(shown),
    drop: (id) => pendingStore.drop(id),
    async answer(id, answers, options = {}) {
      if (answers !== undefined) checkArgument('pending.answer()', answers, ANSWERS);
      checkOptions('pending.answer', options, ANSWER);
      const { client } = options;
      return pendingStore.answering(id, async () => {
        if (answers === undefined) return answerAll(id, client);
        const record = await pendingStore.find(id);
        if (!record) throw notPending(id);
        const [connection] = await clientOf(record, client);
        return answerOne(connection, record, inOrder(record, answers));
      });
    },
  };
}

/** The timeout of a call once it is answered, in seconds. */
const TIMEOUT = 300;

/** The outcome of an answer: the call's result, or its next questions. Server errors are thrown. */
type Outcome = { readonly result: Result } | { readonly asked: Questions };

/** Sends the answers to pending questions and waits for the outcome. */
async function send(
  connection: Connection,
  record: PendingRecord,
  answers: readonly Answer[],
  sessions: Pick<Returning, 'naming'>,
): Promise<Outcome> {
  const { asked, params, session } = record;
  // If the question came without its call, any method that may ask can replace it, because the request is not sent.
  const { method = asked.carrier === 'state' ? 'tools/call' : undefined } = record;
  if (method === undefined) throw notPending(record.id);
  const naming = (id: Id): Response =>
    sessions.naming(connection, session?.id, { jsonrpc: '2.0', id, ...answers[0] } as Response);
  const retry =
    asked.carrier === 'state'
      ? { params, answer: answerTo(connection, record.id, asked, naming) }
      : retryOf({ jsonrpc: '2.0', id: 0, method, params }, asked, answers);
  const { params: sent, ...form } = retry;
  const result = await connection.request(method, sent, { timeout: TIMEOUT, ...form });
  const next = handedOver(result);
  return next ? { asked: next } : { result };
}

/** Whether there is nothing left to answer, because the server has ended the call, even with an error. */
function isOver(error: unknown): boolean {
  if (error instanceof SessionGoneError) return true;
  if (isExpired(error)) return true;
  return (
    error instanceof RequestError &&
    error.rpcCode !== CONNECTION_CLOSED.code &&
    outcomeIn(error) !== 'not-done'
  );
}

function otherVersion({ id }: PendingRecord): ValiseError {
  const what = `The pending round "${id}" belongs to a newer protocol version than this connection uses.`;
  return new ValiseError('other-version', what, {
    next: 'Connect to the server that asked. The round is still pending.',
  });
}

function otherAccount({ id }: PendingRecord): ValiseError {
  return new ValiseError('other-account', `The pending round "${id}" was asked of another account.`, {
    next: 'Connect as the user who was asked, then answer; or drop it.',
  });
}

async function askClient(connection: Connection, { id, asked }: PendingRecord): Promise<Answer[]> {
  const answers = await Promise.all(
    asked.questions.map(async ({ method, params }) => answerIn(await connection.askClient(method, params))),
  );
  if (answers.some((answer) => 'error' in answer && answer.error.code === LEFT_OPEN)) {
    throw new ValiseError('left-open', `The pending round "${id}" is left open.`, {
      next: 'Answer it later.',
    });
  }
  const [failed] = answers.flatMap((answer) => ('error' in answer ? [answer.error.message] : []));
  if (failed !== undefined) {
    // The error can be fixed here. Once the server has received it, it cannot.
    throw new ValiseError('request-failed', `The pending round "${id}" could not be answered: ${failed}`, {
      next: 'It is still pending. Answer it again, or drop it.',
    });
  }
  return answers;
}

/** Returns the caller's answers, in the order of the questions. */
function inOrder({ id, asked }: PendingRecord, answers: Answers): Answer[] {
  return asked.questions.map(({ key, method }) => {
    // The server only says that it is still waiting for something else.
    if (method === 'ping') return { result: {} };
    // One question alone may be answered without the question's key.
    const lone = asked.questions.length === 1 && typeof answers['action'] === 'string';
    const answer: unknown = answers[key] ?? (lone ? answers : undefined);
    if (!isObject(answer)) {
      throw new ValiseError('invalid-argument', `The pending round "${id}" also asks "${key}".`, {
        next: 'Answer all of its questions at once.',
      });
    }
    if (isObject(answer['error'])) return { error: answer['error'] as never };
    return { result: (isObject(answer['result']) ? answer['result'] : answer) as Result };
  });
}
