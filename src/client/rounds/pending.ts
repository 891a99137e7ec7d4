import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { checkArgument, checkOptions, type Taken, type TakenBy } from '../../options.ts';
import { redactUrls } from '../../redact-urls.ts';
import { type Answer, type Era, outcomeIn, type Result } from '../../wire/index.ts';
import type { Connection } from '../connection.ts';
import { CONNECTION_CLOSED, RequestError } from '../request-error.ts';
import { SessionGoneError } from '../sessions/errors.ts';
import { targetKey } from '../target.ts';
import { notThere, send } from './deliver.ts';
import { answerIn } from './driver.ts';
import { LEFT_OPEN } from './left-open.ts';
import type { RoundsPart } from './part.ts';
import { beingAnswered, type Kept, type PendingStore, shown } from './pending-store.ts';
import { resume } from './resumed.ts';
import { expiryOf, isExpired } from './round.ts';
import type { AnswerOptions, Answers, Continued, Pending } from './types.ts';

const ANSWERS: Taken = ['an object with the answer to each question, by its key', isObject];
const ANSWER: TakenBy<AnswerOptions> = { client: ['a connected client', isObject] };

/** Lists, continues and drops the calls that wait for answers. */
export function pendingRounds(
  pendingStore: PendingStore,
  rounds: Pick<RoundsPart, 'clients' | 'holds'>,
): Pending {
  const clientOf = async (kept: Kept, given: object | undefined): Promise<readonly [Connection, object]> => {
    if (await rounds.holds(kept.id)) throw beingAnswered(kept.id);
    let isOthers = false;
    // Several connections may share one target key, such as servers in this process.
    const requester = given ? undefined : pendingStore.requesterOf(kept.id);
    const asking = requester && rounds.clients.get(requester);
    if (requester && asking) return [requester, asking];
    for (const entry of rounds.clients) {
      const [connection, client] = entry;
      if (given ? client !== given : targetKey(connection.target) !== kept.server) continue;
      isOthers = !connection.account.owns(kept.account);
      if (isOthers) continue;
      // A legacy server would not recognize the round's state, and would run the call as if for the first time.
      if (kept.era === 'modern' && eraOf(client, connection) === 'legacy') throw otherEra(kept);
      return entry;
    }
    if (isOthers) throw otherAccount(kept);
    throw new ValiseError(
      'not-connected',
      `The server of the pending round "${kept.id}" is not connected: ${redactUrls(kept.server)}.`,
      { next: 'Connect to it, then answer.' },
    );
  };

  /** Runs `work` in the call's session. If that ends the call, the round is dropped. */
  const within = async <Value>(
    connection: Connection,
    { id, session, version }: Kept,
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
    kept: Kept,
    answers: readonly Answer[],
  ): Promise<Continued> => {
    const outcome = await within(connection, kept, () =>
      send(connection, kept, answers, pendingStore.sessions),
    );
    const { method, params, era, session } = kept;
    if ('result' in outcome) {
      await pendingStore.tryDrop(kept.id, kept.version);
      return { done: true, result: outcome.result };
    }
    const call = method === undefined ? undefined : { method, params, era, session };
    await pendingStore.keep(connection, call, outcome.round, kept.id);
    const { round } = outcome;
    return {
      done: false,
      round: shown({ ...kept, round, since: Date.now(), expiresAt: expiryOf(round) }),
    };
  };

  /** Answers with the client's own handlers until the call is done. */
  const answerAll = async (id: string, given: object | undefined): Promise<Continued> => {
    for (;;) {
      const kept = await pendingStore.find(id);
      if (!kept) throw notThere(id);
      const [connection, client] = await clientOf(kept, given);
      const { method } = kept;
      // On 2026-07-28 only the SDK may ask its handlers, and it answers the round by itself.
      if (eraOf(client, connection) === 'modern' && kept.round.form === 'input' && method !== undefined) {
        return {
          done: true,
          result: await within(connection, kept, () => resume(client, { ...kept, method })),
        };
      }
      const continued = await answerOne(connection, kept, await asked(connection, kept));
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
        const kept = await pendingStore.find(id);
        if (!kept) throw notThere(id);
        const [connection] = await clientOf(kept, client);
        return answerOne(connection, kept, given(kept, answers));
      });
    },
  };
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

function otherEra({ id }: Kept): ValiseError {
  const what = `The pending round "${id}" was asked on 2026-07-28, and this server, or its connection, speaks an older version.`;
  return new ValiseError('other-version', what, {
    next: 'Connect to the server that asked; the round still waits.',
  });
}

function otherAccount({ id }: Kept): ValiseError {
  return new ValiseError('other-account', `The pending round "${id}" was asked of another account.`, {
    next: 'Connect as the user who was asked, then answer; or drop it.',
  });
}

/** Prefers the client's era: a connection that resumes an earlier process's session may not have sent anything that shows it. */
function eraOf(client: { getProtocolEra?(): Era | undefined }, connection: Connection): Era {
  return client.getProtocolEra?.() ?? connection.era;
}

async function asked(connection: Connection, { id, round }: Kept): Promise<Answer[]> {
  const answers = await Promise.all(
    round.questions.map(async ({ method, params }) => answerIn(await connection.askClient(method, params))),
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
      next: 'It stays open: answer it again, or drop it.',
    });
  }
  return answers;
}

/** Returns the caller's answers, in the order of the questions. */
function given({ id, round }: Kept, answers: Answers): Answer[] {
  return round.questions.map(({ key, method }) => {
    // The server only says that it is still waiting for something else.
    if (method === 'ping') return { result: {} };
    // A round with one question may be answered without the question's key.
    const lone = round.questions.length === 1 && typeof answers['action'] === 'string';
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
