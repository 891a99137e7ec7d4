import type { ClientValise } from 'mcp-valise/client';
import { redactUrls } from 'mcp-valise/internal';
import pkg from '../../../package.json' with { type: 'json' };
import { openFor, openKept } from '../../connection/connect.ts';
import { type ConnectOptions, storeUrl } from '../../options/options.ts';
import type { Feed, Moment } from '../feed.ts';
import type { Routes } from '../routes.ts';
import { callRoutes } from './calls.ts';
import { healthRoutes } from './health.ts';
import { Links } from './links.ts';
import { questionRoutes } from './questions.ts';
import { readKept, serversIn } from './servers.ts';
import { signInRoutes } from './sign-ins.ts';
import { stateRoutes } from './state.ts';
import { watchStore } from './watch.ts';
import { EVENT_NAMES, wordsOf } from './words.ts';

/** Settings of {@link openClientConsole}. */
export interface ClientConsoleSettings {
  readonly options: ConnectOptions;
  readonly write: boolean;
  /** Servers that the page may connect to, besides those in the store. */
  readonly targets: readonly string[];
  readonly feed: Feed;
  /** What the page is called, if it is not the console of a store. */
  readonly mode?: 'client' | 'tour';
}

/** The console of a client's store. */
export interface OpenedConsole {
  readonly routes: Routes;
  close(): Promise<void>;
}

/** The default limit of entries for one server and scope. */
const QUOTA = 50;

/** Opens a client's store for the console. */
export async function openClientConsole({
  options,
  write,
  targets,
  feed,
  mode = 'client',
}: ClientConsoleSettings): Promise<OpenedConsole> {
  // A console that only reads does not create a store.
  const valise = await (write ? openFor : openKept)(options);
  const links = new Links(valise, options, feed);
  const { principal } = options;
  printEvents(valise, feed);
  const watching = watchStore(valise, feed);
  return {
    routes: {
      'GET meta': {
        run: () => ({
          mode,
          write,
          version: pkg.version,
          store: redactUrls(storeUrl(options.store)),
          principal,
          quota: QUOTA,
          // Without recorded events, the page says what it cannot see.
          seesOthers: watching.seesOthers(),
        }),
      },
      'GET servers': {
        run: async () => ({ servers: serversIn(await readKept(valise), targets, principal) }),
      },
      'GET timeline': { run: () => ({ moments: feed.moments }) },
      'GET refusals': { run: () => ({ refusals: refusalsIn(feed) }) },
      ...stateRoutes(valise, feed),
      ...questionRoutes(valise, links, feed, options),
      ...signInRoutes(valise, feed),
      ...callRoutes(valise, links, feed, targets),
      ...healthRoutes(valise, { options, given: targets, write }),
    },
    async close() {
      await watching.close();
      await links.close();
      await valise.close();
    },
  };
}

/** Puts the events of this process on the timeline. */
function printEvents(valise: ClientValise, feed: Feed): void {
  for (const name of EVENT_NAMES)
    valise.on(name, (event) => {
      feed.add({ kind: 'event', name, ...wordsOf(name, event) });
      feed.changed('state', 'servers', 'sign-ins');
    });
}

/** The entries that were refused or evicted, as far as events tell. */
function refusalsIn(feed: Feed): readonly Moment[] {
  return feed.moments.filter(
    (each) => each.kind === 'event' && (each.name === 'refused' || each.name === 'evicted'),
  );
}
