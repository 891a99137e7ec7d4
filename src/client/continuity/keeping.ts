import type { SessionHold } from './hold.ts';
import { NOT_KEPT, type Snapshot, type SnapshotKeeper, TOO_LARGE } from './snapshot.ts';

const ROOM = 'The connection goes on. To have its session kept, forget the other one: connections.forget.';

/** What a connection's keeping works with. */
export interface KeepingParts {
  /** Absent where nothing is to be kept. */
  readonly keeper: SnapshotKeeper | undefined;
  /** Absent where several processes may be in the session together. */
  readonly hold: SessionHold | undefined;
  /** Something could not be kept, and the connection goes on without. */
  warn(what: string, error: unknown, next?: string): void;
}

/** What a connection leaves for later processes. Where that fails it is told, and the connection goes on. */
export class Keeping {
  readonly #parts: KeepingParts;

  constructor(parts: KeepingParts) {
    this.#parts = parts;
  }

  /** The session of the older era that was kept when it was last looked for. */
  get seen(): Snapshot | undefined {
    return this.#parts.keeper?.seen('legacy');
  }

  /** The session of the older era that is kept. */
  async load(): Promise<Snapshot | undefined> {
    return this.#parts.keeper?.load('legacy');
  }

  /** False where another process is in the session that is kept; else this one is from now on. */
  async isFree({ sessionId }: Snapshot): Promise<boolean> {
    const { hold } = this.#parts;
    return sessionId === undefined || !hold || hold.take();
  }

  /** This process is not in the kept session any more. */
  leave(): void {
    void this.#parts.hold?.release();
  }

  /**
   * Keeps a snapshot, and says whether it did. That another process is in the session that is kept is nothing to tell.
   * Where that one is `spared`, its client must not find it taken, not even for a moment.
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
