import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../../errors.ts';
import {
  type Response,
  type RpcError,
  sessionConflict,
  sessionNotFound,
  undone,
  writeSession,
} from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange } from '../exchange.ts';
import { isBehind } from '../flow/present-session.ts';
import { Slot } from '../slot.ts';
import type { Handle } from './handle.ts';
import { type Committed, type Held, metaOf } from './held.ts';
import type { SessionsSettings } from './options.ts';
import { type Failed, toldTo } from './reply.ts';

/** A request at work in a session. */
export interface Work {
  readonly held: Held;
  readonly handle: Handle;
  /** Keeps what the handler changed. */
  commit(): Committed | Promise<Committed>;
  /** Ends the session, as the handler asked. */
  end(): Promise<unknown>;
}

/** What each request is at work on. */
export const works = new Slot<Work>();

/** Why it is not known whether a session stands in for a request. Only a handler that asks for one need suffer. */
export const unfound = new Slot<{ readonly error: unknown }>();

const reruns = new Slot<number>();

const MAX_RERUNS = 100;

const BEHIND = {
  what: 'A call that had asked something changed its session, whose state is with the client, as it was before it asked: the answer did not bring what that is now, or the handler waited for it in memory. Where other calls have changed it since, either their changes or its own are lost.',
  next: "Use sessions: { mode: 'stored' } where flows change sessions of such clients.",
};

/** Keeps a session's changes when its request is answered, and says so in the answer. */
export function createFinish(
  { rerun, mode }: SessionsSettings,
  failed: Failed,
  warnOnce: ServerContext['warnOnce'],
): (
  exchange: Exchange,
  work: Work,
  response: Response,
) => Response | undefined | Promise<Response | undefined> {
  const settle = (
    exchange: Exchange,
    { held, handle, end }: Work,
    response: Response,
    committed: Committed,
  ): Response | undefined | Promise<Response | undefined> => {
    if (committed === 'conflict' || (committed === 'gone' && handle.implicit))
      return again(exchange, held, response);
    if (committed === 'gone')
      return {
        jsonrpc: '2.0',
        id: response.id,
        error: sessionNotFound(exchange.spelling.sessions, held.id, { begun: true }),
      };
    if (!handle.implicit)
      exchange.addMeta(writeSession(exchange.spelling.sessions, toldTo(exchange, committed)));
    return handle.revoked ? end().then(() => response) : response;
  };

  /** The handler saw what is no longer so. Nothing of it was kept, so it may run again on what is so now. */
  const again = async (
    exchange: Exchange,
    { id }: Held,
    response: Response,
  ): Promise<Response | undefined> => {
    const tries = reruns.get(exchange) ?? 0;
    if (!rerun || tries >= MAX_RERUNS)
      return failure(response, sessionConflict(exchange.spelling.sessions, id));
    reruns.set(exchange, tries + 1);
    // Whoever came in between has finished; a crowd is spread out a little.
    if (tries > 2) await sleep(Math.random() * Math.min(tries, 20));
    exchange.rerun();
    return undefined;
  };

  const failure = ({ id }: Response, error: RpcError): Response => ({
    jsonrpc: '2.0',
    id,
    error: undone(error),
  });

  return (exchange, work, response) => {
    const { held, handle } = work;
    // An error carries no session, so what was set before it is forgotten.
    if (!('result' in response)) return handle.revoked ? work.end().then(() => response) : response;
    // The handler will run again from the top when the answers are there, and do then what it did now.
    if (response.result['resultType'] === 'input_required')
      return settle(exchange, work, response, metaOf(held.id, held.expires, held.seq));
    if (mode === 'sealed' && held.data.isChanged && isBehind(exchange)) warnOnce('session-behind', BEHIND);
    const unkept = (error: unknown): Response | undefined | Promise<Response | undefined> => {
      if (held.data.isChanged) return failure(response, failed(error));
      warnOnce('session-not-put-off', {
        what: `The end of a session could not be put off: ${messageOf(error)}`,
        next: 'Check the store. Calls that change nothing are served, and try again.',
      });
      return settle(exchange, work, response, metaOf(held.id, held.expires, held.seq));
    };
    try {
      const committed = work.commit();
      if (!(committed instanceof Promise)) return settle(exchange, work, response, committed);
      return committed.then((late) => settle(exchange, work, response, late), unkept);
    } catch (error) {
      return unkept(error);
    }
  };
}
