import { type Response, writeSession } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import type { Home } from './home.ts';
import type { Kept } from './kept.ts';
import type { HeldSession } from './session.ts';

/** Lets a call that waits for an answer continue in its session, even in another process. */
export interface Returning {
  /** Returns the session that a call was sent in, with all that a later process needs to use it. */
  sessionOf(call: Call): Kept | undefined;
  /** Records that the round with that id waits in a session, until it is over. */
  waits(connection: Connection, session: Kept, round: string): void;
  /** Marks a round as over. */
  over(round: string): void;
  /** Adds the call's current session to the answer to a question asked during the call. */
  naming(connection: Connection, session: string | undefined, answer: Response): Response;
  /** Runs `work` in a stored session. */
  inside<Value>(connection: Connection, session: Kept, work: () => Promise<Value>): Promise<Value>;
}

/** Gives family R access to the sessions of its calls. */
export function returningTo(homesAt: (connection: Connection) => readonly Home[]): Returning {
  const find = (connection: Connection, id: string): HeldSession | undefined => {
    for (const home of homesAt(connection)) {
      const session = home.find(id);
      if (session) return session;
    }
    return undefined;
  };
  const live = ({ connection, session }: Call): HeldSession | undefined =>
    session === undefined ? undefined : find(connection, session);
  const reenter = async (connection: Connection, kept: Kept): Promise<HeldSession | undefined> =>
    find(connection, kept.id) ?? homesAt(connection)[0]?.reenter(kept);
  const waiting = new Map<string, HeldSession>();
  return {
    sessionOf: (call) => live(call)?.toKeep(),
    waits(connection, { id }, round) {
      const session = find(connection, id);
      if (!session) return;
      session.waiting.add(round);
      waiting.set(round, session);
    },

    over(round) {
      waiting.get(round)?.waiting.delete(round);
      waiting.delete(round);
    },

    naming(connection, id, answer) {
      const session = id === undefined ? undefined : find(connection, id);
      if (!session || !('result' in answer)) return answer;
      const { result } = answer;
      const { sessions } = connection.server.spelling('legacy');
      const _meta = { ...result._meta, ...writeSession(sessions, session.sent()) };
      return { ...answer, result: { ...result, _meta } };
    },

    async inside(connection, kept, work) {
      const session = await reenter(connection, kept);
      return session ? session.run(work) : work();
    },
  };
}
