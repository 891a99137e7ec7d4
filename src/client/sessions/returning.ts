import { isSession, type Result, readSession } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import type { Home } from './home.ts';
import type { Kept } from './kept.ts';
import type { HeldSession } from './session.ts';

/** How a call that waits for an answer goes on in its session, also in another process. */
export interface Returning {
  /** The session that a call went out in, with all that a later process needs to use it. */
  sessionOf(call: Call): Kept | undefined;
  /** Notes that a round of that id waits in a session, until it is over. */
  waits(connection: Connection, session: Kept, round: string): void;
  /** A round is over. */
  over(round: string): void;
  /** Sends the next message of a call under way in its session, whatever brought it about. */
  goOn(call: Call, send: () => Promise<void>): Promise<void>;
  /** Runs `work` in such a session. */
  inside<Value>(connection: Connection, session: Kept, work: () => Promise<Value>): Promise<Value>;
  /** Takes over what the result of a call says, where it came without its call. */
  learn(connection: Connection, session: Kept, result: Result): Promise<void>;
}

/** Lets family R find the sessions of its calls. */
export function returningTo(homeOf: (connection: Connection) => Home | undefined): Returning {
  const live = ({ connection, session }: Call): HeldSession | undefined =>
    session === undefined ? undefined : homeOf(connection)?.find(session);
  const waiting = new Map<string, HeldSession>();
  return {
    sessionOf: (call) => live(call)?.toKeep(),
    waits(connection, { id }, round) {
      const session = homeOf(connection)?.find(id);
      if (!session) return;
      session.waiting.add(round);
      waiting.set(round, session);
    },

    over(round) {
      waiting.get(round)?.waiting.delete(round);
      waiting.delete(round);
    },

    goOn: (call, send) => live(call)?.goOn(send) ?? send(),

    async inside(connection, kept, work) {
      const session = await homeOf(connection)?.reenter(kept);
      return session ? session.run(work) : work();
    },

    async learn(connection, kept, { _meta }) {
      const home = homeOf(connection);
      const reading = readSession(_meta);
      if (!home || !isSession(reading) || reading.sessionId !== kept.id) return;
      const session = await home.reenter(kept);
      if (session.update(reading, session.nextCall()) && session.keeps) await home.save(session);
    },
  };
}
