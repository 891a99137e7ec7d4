import { clock } from '../../store/kit/clock.ts';
import { type Collection, collection, type Found, type Schema } from '../../store/kit/collection.ts';
import { isRunning, ownProcess, type ProcessMark } from '../../store/kit/process.ts';
import type { Store } from '../../store/types.ts';

/** How long a hold outlives its process at most, where a process id alone says who it was. */
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

/** Where it is said who is in the session of a connection. */
export function holdKey(connection: string): string {
  return `${connection}/holder`;
}

/**
 * Says in the store which process is in the kept session, so that no other one joins it. No lease: a lease outlives a
 * process that was killed, and whoever is started in its place must not wait. A hold is worth as much as its process lives.
 */
export class SessionHold {
  readonly #holders: Collection<ProcessMark>;
  readonly #key: string;
  #seen: Promise<Found<ProcessMark> | undefined> | undefined;
  #version: string | undefined;
  #stopRenewing: (() => void) | undefined;
  /** One after the other: what is given back has been taken by then. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(store: Store, key: string) {
    this.#holders = collection(store, '', HOLDER);
    this.#key = key;
  }

  /** Looks who has it, while there is other work to do. */
  look(): void {
    this.#seen = this.#holders.get(this.#key);
    // Whoever takes it hears of it.
    this.#seen.catch(() => undefined);
  }

  /** False where another process has it that lives. Where the store does not say, nobody has. */
  take(): Promise<boolean> {
    return this.#next(() => this.#take().catch(() => true));
  }

  /** Leaves the session to others. */
  release(): Promise<void> {
    return this.#next(async () => {
      this.#stopRenewing?.();
      const version = this.#version;
      this.#version = undefined;
      // Where it cannot be given back, it ends with the process.
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
