import type { SessionHold } from './hold.ts';
import { NOT_KEPT, type Snapshot, type SnapshotKeeper, TOO_LARGE } from './snapshot.ts';

const ROOM = 'The connection goes on. To have its session kept, forget the other one: connections.forget.';

/** The dependencies of {@link Keeping}. */
export interface KeepingParts {
  /** Absent if nothing is to be stored. */
  readonly keeper: SnapshotKeeper | undefined;
  /** Absent if several processes may share the session. */
  readonly hold: SessionHold | undefined;
  /** Reports that something could not be stored. The connection continues without it. */
  warn(what: string, error: unknown, next?: string): void;
}

/** Stores a connection's snapshot for later processes. A failure only emits a warning, and the connection continues. */
export class Keeping {
  readonly #parts: KeepingParts;

  constructor(parts: KeepingParts) {
    this.#parts = parts;
  }

  /** The legacy session that was stored when it was last loaded. */
  get seen(): Snapshot | undefined {
    return this.#parts.keeper?.seen('legacy');
  }

  /** Loads the stored legacy session. */
  async load(): Promise<Snapshot | undefined> {
    return this.#parts.keeper?.load('legacy');
  }

  /** Takes the stored session for this process. Resolves to false if another process uses it. */
  async isFree({ sessionId }: Snapshot): Promise<boolean> {
    const { hold } = this.#parts;
    return sessionId === undefined || !hold || hold.take();
  }

  /** Releases the stored session. */
  leave(): void {
    void this.#parts.hold?.release();
  }

  /**
   * Stores a snapshot, and returns whether it did. Does not warn if another process uses the stored session. With `spared`,
   * takes the hold only after saving, so that the other session's client never finds it taken.
   */
  async save(snapshot: Snapshot, spared: boolean): Promise<boolean> {
    const { keeper, warn } = this.#parts;
    if (!keeper) return false;
    try {
      if (!spared && !(await this.isFree(snapshot))) return false;
      const isKept = await keeper.save(snapshot);
      if (isKept === true) {
        if (spared) await this.isFree(snapshot);
        return true;
      }
      if (!spared) this.leave();
      if (isKept === 'too-large') warn('The next process connects anew', TOO_LARGE);
      else if (snapshot.sessionId !== undefined)
        warn('Its session ends with this connection', NOT_KEPT, ROOM);
    } catch (error) {
      warn('What the server said of itself could not be kept', error);
    }
    return false;
  }

  async update(snapshot: Snapshot, change: Partial<Snapshot>): Promise<void> {
    const { keeper, warn } = this.#parts;
    await keeper
      ?.update(snapshot, change)
      .catch((error: unknown) => warn('Where the stream stands could not be kept', error));
  }

  async forget(gone: Snapshot | undefined): Promise<void> {
    const { keeper, warn } = this.#parts;
    if (gone) await keeper?.clear(gone).catch((error: unknown) => warn('It could not be forgotten', error));
  }
}
