import { randomBytes } from 'node:crypto';
import { sha256 } from '../../../core/sha256.ts';
import { clock } from '../../../store/kit/clock.ts';
import { type Collection, collection, type Members, recordsOf } from '../../../store/kit/collection.ts';
import type { Store } from '../../../store/types.ts';
import type { Params } from '../../../wire/index.ts';

/** A stored notification. */
export interface Entry {
  readonly n: number;
  /** When it was sent, in milliseconds since 1970. */
  readonly at: number;
  readonly method: string;
  readonly params?: Params;
}

/** The last notifications of one session, or of all listeners without one. */
export interface Log {
  /** The generation. It changes when the log starts over, and positions of other generations mean nothing. */
  readonly gen: string;
  /** The number of notifications so far. */
  readonly n: number;
  readonly entries: readonly Entry[];
}

/** The notifications after a position. */
export interface Since {
  readonly entries: readonly Entry[];
  /** Whether earlier notifications are lost for good. */
  readonly missed: boolean;
  /** The position after these notifications. */
  readonly cursor: string;
}

const MAX_ENTRIES = 100;
const MAX_BYTES = 256 * 1024;
/** How long a listener may be away without missing anything, in milliseconds. */
const WINDOW = 10 * 60_000;
/** The position before the first notification of any log. */
const START = '0';

/** Stores the last notifications for listeners that disconnect and come back. */
export class NotificationLog {
  readonly #records: Collection<Members>;
  readonly #ttl: number;

  /** Creates the log. `ttl` is how long a log is kept after its last notification, in seconds. */
  constructor(store: Store, ttl: number) {
    this.#records = collection(store, 'log/', recordsOf('notification log'), { unlisted: true });
    this.#ttl = ttl;
  }

  async read(scope: string): Promise<Log | undefined> {
    return readLog((await this.#records.get(logKey(scope)))?.value);
  }

  /** Adds a notification. Returns it with its position in the log. */
  async append(
    scope: string,
    method: string,
    params: Params | undefined,
  ): Promise<Entry & { readonly gen: string }> {
    let appended: (Entry & { readonly gen: string }) | undefined;
    await this.#records.update(
      logKey(scope),
      (found) => {
        const { gen, n, entries } = readLog(found?.value) ?? {
          gen: randomBytes(6).toString('base64url'),
          n: 0,
          entries: [],
        };
        const entry: Entry = { n: n + 1, at: clock.now(), method, ...(params && { params }) };
        appended = { ...entry, gen };
        return { gen, n: entry.n, entries: pruned([...entries, entry]) };
      },
      { ttl: this.#ttl },
    );
    return appended as Entry & { readonly gen: string };
  }

  async remove(scope: string): Promise<void> {
    await this.#records.delete(logKey(scope));
  }
}

/** Returns the position at the end of a log. */
export function endOf(log: Log | undefined): string {
  return log ? cursorOf(log.gen, log.n) : START;
}

export function cursorOf(gen: string, n: number): string {
  return `${gen}.${n}`;
}

/** Returns what a log has after a position, or everything if there is none. */
export function since(log: Log | undefined, after: string = START): Since {
  const from = readCursor(after);
  if (!log) return { entries: [], missed: from.n > 0, cursor: START };
  const isOther = from.gen !== '' && from.gen !== log.gen;
  const last = isOther ? 0 : from.n;
  const now = clock.now();
  const entries = log.entries.filter(({ n, at }) => n > last && now - at < WINDOW);
  const missed = isOther || log.n - last > entries.length;
  return { entries, missed, cursor: endOf(log) };
}

/** Reads a position. A position that is not ours counts as one of another log. */
export function readCursor(cursor: string): { readonly gen: string; readonly n: number } {
  if (cursor === START) return { gen: '', n: 0 };
  const match = /^([\w-]{1,32})\.(\d{1,15})$/.exec(cursor);
  return match ? { gen: match[1] as string, n: Number(match[2]) } : { gen: '?', n: 1 };
}

function pruned(entries: readonly Entry[]): readonly Entry[] {
  const oldest = clock.now() - WINDOW;
  let recent = entries.slice(-MAX_ENTRIES).filter(({ at }) => at > oldest);
  while (recent.length > 1 && JSON.stringify(recent).length > MAX_BYTES) recent = recent.slice(1);
  return recent;
}

function readLog(value: Members | undefined): Log | undefined {
  return typeof value?.['gen'] === 'string' && Array.isArray(value['entries'])
    ? (value as unknown as Log)
    : undefined;
}

function logKey(scope: string): string {
  return scope === '' ? 'global' : sha256(scope);
}
