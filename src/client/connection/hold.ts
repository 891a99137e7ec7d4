import { clock } from '../../store/kit/clock.ts';
import { type Collection, collection, type Found, type Schema } from '../../store/kit/collection.ts';
import { isRunning, ownProcess, type ProcessMark } from '../../store/kit/process.ts';
import type { Store } from '../../store/types.ts';

/** The maximum time in seconds that a hold outlives its process, if only a process id identifies it. */
const HOLD_SECONDS = 600;
/** How often it is renewed, in milliseconds. */
const RENEWAL = 240_000;

const HOLDER: Schema<ProcessMark> = {
  kind: 'session holder',
  version: 1,
  read: ({ host, pid, started }) =>
    typeof host === 'string' && typeof pid === 'number' && typeof started === 'string'
      ? { host, pid, started }
      : undefined,
};

/** Returns the key of the entry that says which process uses the session of a connection. */
export function holdKey(connection: string): string {
  return `${connection}/holder`;
}

/**
 * Records in the store which process uses the stored session, so that no other one joins it. A lease would outlive a killed
 * process, and its replacement must not wait. A hold is valid only while its process is running.
 */
export class SessionHold {
  readonly #holders: Collection<ProcessMark>;
  readonly #key: string;
  #seen: Promise<Found<ProcessMark> | undefined> | undefined;
  #version: string | undefined;
  #stopRenewing: (() => void) | undefined;
  /** Runs one operation at a time, so that a hold is only released after it was taken. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(store: Store, key: string) {
    this.#holders = collection(store, '', HOLDER);
    this.#key = key;
  }

  /** Starts reading the current holder in the background. */
  look(): void {
    this.#seen = this.#holders.get(this.#key);
    // `take` handles the error.
    this.#seen.catch(() => undefined);
  }

  /** Takes the hold. Resolves to false if another running process has it. If the store fails, nobody has it. */
  take(): Promise<boolean> {
    return this.#next(() => this.#take().catch(() => true));
  }

  /** Releases the session for other processes. */
  release(): Promise<void> {
    return this.#next(async () => {
      this.#stopRenewing?.();
      const version = this.#version;
      this.#version = undefined;
      // If it cannot be released, it ends with the process.
      if (version !== undefined)
        await this.#holders.delete(this.#key, { ifVersion: version }).catch(() => false);
    });
  }

  async #take(): Promise<boolean> {
    const seen = this.#seen && { found: await this.#seen };
    this.#seen = undefined;
    const own = ownProcess();
    const version = await this.#holders.update(
      this.#key,
      (found) => {
        const isFree = !found?.value || found.value.pid === own.pid || isRunning(found.value) !== true;
        return isFree ? own : undefined;
      },
      { ttl: HOLD_SECONDS, seen },
    );
    return typeof version === 'string' ? this.#have(version) : this.#lose();
  }

  #have(version: string): true {
    this.#version = version;
    this.#stopRenewing?.();
    this.#stopRenewing = clock.every(RENEWAL, () => void this.take());
    return true;
  }

  #lose(): false {
    this.#version = undefined;
    this.#stopRenewing?.();
    return false;
  }

  #next<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done;
    return done;
  }
}
