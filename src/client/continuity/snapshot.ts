import { isObject, type Json } from '../../json.ts';
import type { Store } from '../../store/types.ts';
import { type Era, isSessionId, type Result } from '../../wire/index.ts';

/** What a client keeps of a connection, so that its next process can go on where this one was. */
export interface Snapshot {
  readonly era: Era;
  /** The `initialize` or `server/discover` result as it came: version, capabilities, server info, instructions. */
  readonly introduction: Result;
  readonly protocolVersion: string;
  /** The transport's session, where the server gave one. */
  readonly sessionId?: string;
  /** Where the standalone stream of that session stands. */
  readonly lastEventId?: string;
  /** When it was written, in milliseconds since 1970. */
  readonly savedAt: number;
}

/** Keeps one snapshot per target, principal and era. It is one entry, so it is replaced in one step. */
export class SnapshotKeeper {
  readonly #store: Store;
  readonly #prefix: string;

  constructor(store: Store, targetKey: string, principal: string) {
    this.#store = store;
    this.#prefix = snapshotPrefix(targetKey, principal);
  }

  /** What is kept; undefined also where it does not look as it should, which costs one `initialize` and nothing else. */
  async load(era: Era): Promise<Snapshot | undefined> {
    const entry = await this.#store.get(this.#prefix + era);
    return entry && readSnapshot(entry.value);
  }

  async save(snapshot: Snapshot): Promise<void> {
    await this.#store.put(this.#prefix + snapshot.era, snapshot as unknown as Json);
  }

  /** Changes what is kept, unless another process has replaced that session in between. */
  async update(snapshot: Snapshot, change: Partial<Snapshot>): Promise<void> {
    const key = this.#prefix + snapshot.era;
    const entry = await this.#store.get(key);
    const kept = entry && readSnapshot(entry.value);
    if (!entry || !kept || kept.sessionId !== snapshot.sessionId) return;
    await this.#store.put(key, { ...kept, ...change } as unknown as Json, { ifVersion: entry.version });
  }

  /** Forgets a session that is over; one that another process has begun since stays. */
  async clear(gone: Snapshot): Promise<void> {
    const key = this.#prefix + gone.era;
    const entry = await this.#store.get(key);
    if (entry && readSnapshot(entry.value)?.sessionId === gone.sessionId) {
      await this.#store.delete(key, { ifVersion: entry.version });
    }
  }
}

/** Where the snapshots of a target are kept. */
export function snapshotPrefix(targetKey: string, principal: string): string {
  return `connection/${JSON.stringify([principal, targetKey])}/`;
}

/** Target and principal of a snapshot's key. */
export function readSnapshotKey(
  key: string,
): { readonly target: string; readonly principal: string; readonly era: Era } | undefined {
  const match = /^connection\/(.*)\/(legacy|modern)$/s.exec(key);
  if (!match) return undefined;
  try {
    const [principal, target] = JSON.parse(match[1] as string) as [string, string];
    return { target, principal, era: match[2] as Era };
  } catch {
    return undefined;
  }
}

/** A snapshot as it comes from a store; undefined where it is none. */
export function readSnapshot(value: unknown): Snapshot | undefined {
  if (!isObject(value)) return undefined;
  const { era, introduction, protocolVersion, sessionId, lastEventId, savedAt } = value;
  if (
    (era !== 'legacy' && era !== 'modern') ||
    !isObject(introduction) ||
    typeof protocolVersion !== 'string'
  )
    return undefined;
  return {
    era,
    introduction: introduction as Result,
    protocolVersion,
    savedAt: typeof savedAt === 'number' ? savedAt : 0,
    ...(isSessionId(sessionId) && { sessionId }),
    ...(typeof lastEventId === 'string' && { lastEventId }),
  };
}
