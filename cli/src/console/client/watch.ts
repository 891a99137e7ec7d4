import type { ClientValise } from 'mcp-valise/client';
import type { RecordedEvent } from 'mcp-valise/internal';
import type { Feed } from '../feed.ts';
import { wordsOf } from './words.ts';

/** Watches what other processes do with the store. */
export interface Watching {
  /** Whether another process records its events in this store. */
  seesOthers(): boolean;
  close(): Promise<void>;
}

/** The shortest pause between two looks, in milliseconds. */
const PAUSE = 1000;

/** Looks at the store while a page is open, and tells the feed what other processes have changed and recorded. */
export function watchStore(valise: ClientValise, feed: Feed): Watching {
  let before: string | undefined;
  /** The recorded events that the feed has. */
  let told: ReadonlySet<string> = new Set();
  let sees = false;
  let closed = false;
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> = Promise.resolve();

  const look = async (): Promise<void> => {
    const events = await valise.recordedEvents();
    const others = events.filter(({ process: of }) => !of.startsWith(`${process.pid}@`));
    if (others.length > 0 && !sees) {
      sees = true;
      feed.changed('meta');
    }
    const known = told;
    const news = others.filter((event) => !known.has(JSON.stringify(event)));
    told = new Set(others.map((event) => JSON.stringify(event)));
    for (const event of news) add(feed, event);
    // A process records its events a moment after it has changed the store.
    if (news.length > 0) feed.changed('state');
    const now = await printOf(valise);
    // The first look counts as a change: something may have happened since the page loaded.
    if (now !== before) feed.changed('servers', 'state', 'questions', 'sign-ins');
    before = now;
  };

  const schedule = (pause: number): void => {
    if (closed) return;
    timer = setTimeout(() => {
      const started = performance.now();
      // A large store is looked at less often. A store that is away is looked at again.
      looking = (feed.isWatched ? look() : Promise.resolve())
        .catch(() => undefined)
        .finally(() => schedule(Math.max(PAUSE, (performance.now() - started) * 10)));
    }, pause).unref();
  };
  schedule(0);
  return {
    seesOthers: () => sees,
    async close() {
      closed = true;
      clearTimeout(timer);
      await looking;
    },
  };
}

function add(feed: Feed, { at, process, name, event }: RecordedEvent): void {
  feed.add({ kind: 'event', at: at.getTime(), process, name, ...wordsOf(name, event as never) });
}

/** A text that changes when what the page shows has changed. */
async function printOf(valise: ClientValise): Promise<string> {
  await valise.jar.refresh();
  const entries = valise.jar.list();
  const latest = entries.reduce((most, { setAt }) => Math.max(most, setAt.getTime()), 0);
  const [sessions, rounds, connections] = await Promise.all([
    valise.sessions.kept(),
    valise.pending.list(),
    valise.connections.list(),
  ]);
  return JSON.stringify([
    entries.length,
    latest,
    sessions.length,
    sessions[0]?.usedAt,
    rounds.map(({ id, since }) => [id, since]),
    connections.map(({ target, session, tokenExpiresAt, refreshedBy, savedAt }) => [
      target,
      session,
      tokenExpiresAt,
      refreshedBy,
      savedAt,
    ]),
  ]);
}
