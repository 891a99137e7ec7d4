import {
  flowSeal,
  readReports,
  redactUrls,
  sessionAt,
  storedFlows,
  storedSessions,
  summarize,
} from 'mcp-valise/internal';
import { createSealer, type Keyring } from 'mcp-valise/seal';
import { createValise, ValiseError } from 'mcp-valise/server';
import { openStore, type Store } from 'mcp-valise/store';
import pkg from '../../../package.json' with { type: 'json' };
import { keysIfAny } from '../../options/key-source.ts';
import type { OpenedConsole } from '../client/console.ts';
import type { Feed } from '../feed.ts';
import { keyUses, kidsInStore } from '../keys.ts';
import { text } from '../routes.ts';

/** Settings of {@link openServerConsole}. */
export interface ServerConsoleSettings {
  readonly store: string;
  readonly write: boolean;
  /** The name of the server, as it is given to `createValise`. Sessions are revoked under it. */
  readonly name: string | undefined;
  readonly feed: Feed;
}

/** How many reads tell how fast the store is. */
const PROBES = 20;
/** The shortest pause between two looks at the store while a page is open, in milliseconds. */
const PAUSE = 3000;

/** The limits that a server has by default. */
const DEFAULT_LIMITS = { maxPerPrincipal: 100, maxAnonymous: 10_000, isDefault: true };

const NOT_RECORDED =
  'No process of this server records what it sees. Rejections, keys in traffic, errors of the store and listeners appear here if the server has the option recordEvents: true, or under valise.console() in the server itself.';

/** Opens the store of a server for its operator. It reads records as they are, and opens them only with the server's keys. */
export async function openServerConsole({
  store: url,
  write,
  name,
  feed,
}: ServerConsoleSettings): Promise<OpenedConsole> {
  const store = await openStore(url);
  const keys = keysIfAny({}, 'VALISE_KEYS');
  const activity = async () => {
    const reports = await readReports(store, name);
    return { ...summarize(reports), ...(reports.length === 0 && { unseen: NOT_RECORDED }) };
  };
  const pace = new Pace(feed);
  return {
    routes: {
      'GET meta': {
        run: () => ({ mode: 'server', write, version: pkg.version, store: redactUrls(url), name, quota: 0 }),
      },
      'GET operator/sessions': {
        run: pace.timed(async () => {
          const { limits = DEFAULT_LIMITS } = await activity();
          return {
            sessions: await storedSessions(store),
            limits,
            canRevoke: write && name !== undefined && keys !== undefined,
          };
        }),
      },
      'POST operator/revoke': {
        writes: true,
        async run(input) {
          const id = await sessionAt(store, text(input, 'id'));
          if (id === undefined) throw gone();
          if (name === undefined || !keys) throw noName();
          const valise = createValise({ name, keys, store, sessions: {} });
          try {
            return { revoked: await valise.sessions.revoke(id) };
          } finally {
            await valise.close();
            feed.changed('operator');
          }
        },
      },
      'GET operator/flows': {
        run: pace.timed(async () => {
          const { flows: counts } = await activity();
          return { flows: await storedFlows(store, (key, token) => opened(key, token, keys)), counts };
        }),
      },
      'GET operator/rejections': {
        async run() {
          const { rejections, unseen } = await activity();
          return { rejections, unseen };
        },
      },
      'GET operator/store': {
        run: pace.timed(async () => {
          const { keys: traffic, storeErrors, processes, unseen } = await activity();
          return {
            keys: keyUses(keys, await kidsInStore(url)),
            latency: await latencyOf(store),
            ...(unseen === undefined ? { traffic, storeErrors, processes } : { unseen }),
          };
        }),
      },
    },
    async close() {
      pace.stop();
      await store.close();
    },
  };
}

/** Tells an open page to look again: every few seconds, and less often if looking takes long. */
class Pace {
  readonly #timer: NodeJS.Timeout;
  #next = 0;

  constructor(feed: Feed) {
    this.#timer = setInterval(() => {
      if (feed.isWatched && performance.now() >= this.#next) feed.changed('operator');
    }, PAUSE).unref();
  }

  /** Returns the work, timed. */
  timed<Value>(work: () => Promise<Value>): () => Promise<Value> {
    return async () => {
      const started = performance.now();
      try {
        return await work();
      } finally {
        const now = performance.now();
        this.#next = Math.max(this.#next, now + (now - started) * 10);
      }
    };
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** Opens the record of a flow. Returns undefined without the keys that sealed it. */
function opened(key: string, token: string, keys: Keyring | undefined): unknown {
  if (!keys) return undefined;
  try {
    const { audience } = createSealer({ keys }).describe(token);
    return createSealer({ keys, audience }).open(token, flowSeal(key));
  } catch {
    // The record belongs to another server, or its key is not here.
    return undefined;
  }
}

async function latencyOf(store: Store): Promise<{ readonly median: number; readonly slowest: number }> {
  const times: number[] = [];
  for (let at = 0; at < PROBES; at++) {
    const started = performance.now();
    await store.get('console/probe');
    times.push(performance.now() - started);
  }
  times.sort((one, other) => one - other);
  return { median: times[PROBES >> 1] ?? 0, slowest: times.at(-1) ?? 0 };
}

function gone(): ValiseError {
  return new ValiseError('not-found', 'This session is no longer in the store.', {
    next: 'Reload the page.',
  });
}

function noName(): ValiseError {
  return new ValiseError(
    'invalid-argument',
    'The console does not know the name and the keys of this server.',
    {
      next: 'Start it with --name, as in createValise({ name }), and with VALISE_KEYS.',
    },
  );
}
