import { isObject, redactUrls } from 'mcp-valise/internal';
import { createSealer, inspectToken, type Keyring } from 'mcp-valise/seal';
import { createValise, ValiseError } from 'mcp-valise/server';
import { openStore, type Store } from 'mcp-valise/store';
import pkg from '../../../package.json' with { type: 'json' };
import { keysIfAny } from '../../options/key-source.ts';
import { isSealed } from '../../tour/carried.ts';
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

/** How many records of each kind are read. */
const MOST = 10_000;
/** How many reads tell how fast the store is. */
const PROBES = 20;

const NOT_LISTED =
  'This store does not list the records of sessions and flows (Redis keeps them unlisted). Mount valise.console() in the server to see its counts.';

/** Opens the store of a server for its operator. It reads records as they are, and opens them only with the server's keys. */
export async function openServerConsole({
  store: url,
  write,
  name,
  feed,
}: ServerConsoleSettings): Promise<OpenedConsole> {
  const store = await openStore(url);
  const keys = keysIfAny({}, 'VALISE_KEYS');
  return {
    routes: {
      'GET meta': {
        run: () => ({ mode: 'server', write, version: pkg.version, store: redactUrls(url), name, quota: 0 }),
      },
      'GET operator/sessions': {
        async run() {
          const rows = await recordsUnder(store, 'sessions/', (key) => key.includes('/row/'));
          return {
            sessions: rows.flatMap(([key, value]) => rowOf(key, value)),
            ...(rows.length === 0 && { unseen: NOT_LISTED }),
            canRevoke: write && name !== undefined && keys !== undefined,
          };
        },
      },
      'POST operator/revoke': {
        writes: true,
        async run(input) {
          const entry = await store.get(text(input, 'id'));
          const id = isObject(entry?.value) ? entry.value['id'] : undefined;
          if (typeof id !== 'string') throw gone();
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
        async run() {
          const records = await recordsUnder(store, 'rounds/kept/');
          return {
            flows: records.map(([key, value]) => flowOf(key, value, keys)),
            ...(records.length === 0 && { unseen: NOT_LISTED }),
          };
        },
      },
      'GET operator/rejections': {
        run: () => ({
          rejections: [],
          unseen:
            'A store does not tell what its servers refused. Mount valise.console() in the server, which counts rejections while it runs.',
        }),
      },
      'GET operator/store': {
        run: async () => ({
          keys: keyUses(keys, await kidsInStore(url)),
          latency: await latencyOf(store),
          unseen: 'Listeners and keys in traffic are known to the server’s processes only.',
        }),
      },
    },
    close: () => store.close(),
  };
}

async function recordsUnder(
  store: Store,
  prefix: string,
  isWanted: (key: string) => boolean = () => true,
): Promise<(readonly [key: string, value: unknown])[]> {
  const found: (readonly [string, unknown])[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await store.list(prefix, cursor === undefined ? {} : { cursor });
    for (const key of page.keys.filter(isWanted)) found.push([key, (await store.get(key))?.value]);
    cursor = page.cursor;
    if (cursor === undefined || found.length >= MOST) return found;
  }
}

/** Returns a session without its id and its state, which only its client has. */
function rowOf(key: string, value: unknown): object[] {
  if (!isObject(value) || typeof value['id'] !== 'string') return [];
  const { id, owner, label, created, expires, until, ended, data } = value;
  return [
    {
      key,
      id: `${id.slice(0, 8)}…`,
      principal: typeof owner === 'string' ? owner.slice(0, 10) : undefined,
      label: typeof label === 'string' ? label : undefined,
      created,
      expires: Math.min(Number(expires), Number(until)),
      ended,
      isStored: data !== null,
    },
  ];
}

/** Returns a flow. With the server's keys it says which tool asks what, and which effects are done. */
function flowOf(key: string, value: unknown, keys: Keyring | undefined): object {
  const kid = isSealed(value) ? inspectToken(value).kid : undefined;
  const id = key.slice(-8);
  const context = isSealed(value) && keys ? opened(key, value, keys) : undefined;
  if (!context) return { id, kid };
  const { t, e, n, q, j, o } = context;
  const params = isObject(o) && isObject(o['p']) ? o['p'] : {};
  const lines = Array.isArray(j) ? (j as readonly unknown[][]) : [];
  return {
    id,
    kid,
    tool: typeof params['name'] === 'string' ? params['name'] : undefined,
    round: n,
    questions: Array.isArray(q) ? (q as readonly unknown[][]).map(([name]) => String(name)) : [],
    since: Number(t) * 1000,
    until: Number(e) * 1000,
    effects: lines.filter(([, kind]) => kind === 'o').map(([name]) => String(name)),
  };
}

function opened(key: string, token: string, keys: Keyring): Record<string, unknown> | undefined {
  try {
    const { audience, purpose } = createSealer({ keys }).describe(token);
    const record: unknown = createSealer({ keys, audience }).open(token, { purpose, bind: [key, 1] });
    const context = isObject(record) ? record['context'] : undefined;
    return isObject(context) ? context : undefined;
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
    'A session is revoked in the name of its server, with its keys.',
    {
      next: 'Start the console with --name, as in createValise({ name }), and with VALISE_KEYS.',
    },
  );
}
