import { messageOf } from '../../errors.ts';
import { type Response, sessionNotFound, withOutcome, writeSession } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import { addMeta, type Exchange } from '../exchange.ts';
import { partlyDone } from '../fault.ts';
import { isBehind } from '../flows/present-session.ts';
import { Slot } from '../slot.ts';
import type { Handle } from './handle.ts';
import { type Committed, type Held, metaOf } from './held.ts';
import type { SessionsSettings } from './options.ts';
import { type Failed, toldTo } from './reply.ts';

/** A request that is working in a session. */
export interface Work {
  readonly held: Held;
  readonly handle: Handle;
  /** Saves what the handler changed. */
  commit(): Committed | Promise<Committed>;
  /** Whether the handler's changes to the session were saved. */
  isSaved?: true;
  /** Ends the session, as requested by the handler. */
  end(): Promise<unknown>;
}

/** The session work of each request. */
export const works = new Slot<Work>();

/** Why it is unknown whether a session stands in for a request. The error affects only handlers that ask for the session. */
export const unfound = new Slot<{ readonly error: unknown }>();

/** Thrown when the handler read outdated state. Nothing was saved, so it may run again on the current state. */
export class SessionChanged extends Error {
  override readonly name = 'SessionChanged';
  readonly id: string;

  constructor(id: string) {
    super(`The session ${id} has changed in between.`);
    this.id = id;
  }
}

const BEHIND = {
  what: 'A call that had asked something changed its session, whose state is with the client, as it was before it asked: the answer did not bring what that is now, or the handler waited for it in memory. Where other calls have changed it since, either their changes or its own are lost.',
  next: "Use sessions: { mode: 'stored' } where flows change sessions of such clients.",
};

/** Creates the function that saves a session's changes when its request is answered, and adds the session to the response. */
export function createFinish(
  { mode }: SessionsSettings,
  failed: Failed,
  warnOnce: ServerContext['warnOnce'],
): (exchange: Exchange, work: Work, response: Response) => Promise<Response> {
  const settle = async (
    exchange: Exchange,
    work: Work,
    response: Response,
    committed: Committed,
  ): Promise<Response> => {
    const { held, handle, end } = work;
    const { sessions } = exchange.spelling;
    if (committed === 'conflict' || (committed === 'gone' && handle.implicit))
      throw new SessionChanged(held.id);
    if (committed === 'gone')
      return exchange.respond({ error: sessionNotFound(sessions, held.id, { begun: true }) });
    if (held.data.isChanged) work.isSaved = true;
    if (handle.revoked)
      await end().catch((error: unknown) => {
        throw work.isSaved ? partlyDone(error) : error;
      });
    return handle.implicit
      ? response
      : addMeta(response, writeSession(sessions, toldTo(exchange, committed)));
  };

  return async (exchange, work, response) => {
    const { held, handle } = work;
    // An error carries no session, so changes made before it are discarded.
    if (!('result' in response)) {
      if (handle.revoked) await work.end();
      return response;
    }
    const unchanged = metaOf(held.id, held.expires, held.seq);
    // The handler will run again from the top when the answers arrive, and will then repeat its changes.
    if (response.result['resultType'] === 'input_required')
      return settle(exchange, work, response, unchanged);
    if (mode === 'sealed' && held.data.isChanged && isBehind(exchange)) warnOnce('session-behind', BEHIND);
    let committed: Committed;
    try {
      committed = await work.commit();
    } catch (error) {
      if (held.data.isChanged) return exchange.respond({ error: withOutcome(failed(error), 'not-done') });
      warnOnce('session-not-put-off', {
        what: `The end of a session could not be put off: ${messageOf(error)}`,
        next: 'Check the store. Calls that change nothing are served, and try again.',
      });
      committed = unchanged;
    }
    return settle(exchange, work, response, committed);
  };
}
