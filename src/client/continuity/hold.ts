import type { Json } from '../../json.ts';
import type { Entry, Store } from '../../store/types.ts';
import { isLivingElsewhere, ownMark } from './living.ts';

/** How long a hold outlives its process at most, where a process id alone says who it was. */
const HOLD_SECONDS = 600;
/** How often it is renewed, in milliseconds. */
const RENEWAL = 240_000;
const TRIES = 5;

/** Where it is said who is in the session of a connection. */
export function holdKey(connection: string): string {
  return `${connection}/holder`;
}

/**
 * Says in the store which process is in the kept session, so that no other one joins it. No lease: a lease outlives a
 * process that was killed, and whoever is started in its place must not wait. A hold is worth as much as its process lives.
 */
export class SessionHold {
  readonly #store: Store;
  readonly #key: string;
  #seen: Promise<Entry | undefined> | undefined;
  #version: string | undefined;
  #renewing: NodeJS.Timeout | undefined;
  /** One after the other: what is given back has been taken by then. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(store: Store, key: string) {
    this.#store = store;
    this.#key = key;
  }

  /** Looks who has it, while there is other work to do. */
  look(): void {
    this.#seen = this.#store.get(this.#key).catch(() => undefined);
  }

  /** False where another process has it that lives. Where the store does not say, nobody has. */
  take(): Promise<boolean> {
    return this.#next(() => this.#take().catch(() => true));
  }

  /** Leaves the session to others. */
  release(): Promise<void> {
    return this.#next(async () => {
      clearInterval(this.#renewing);
      const version = this.#version;
      this.#version = undefined;
      // Where it cannot be given back, it ends with the process.
      if (version !== undefined)
        await this.#store.delete(this.#key, { ifVersion: version }).catch(() => false);
    });
  }

  async #take(): Promise<boolean> {
    let seen = await this.#seen;
    this.#seen = undefined;
    for (let tries = 0; tries < TRIES; tries++) {
      if (seen && isLivingElsewhere(seen.value)) return this.#lose();
      const condition = seen ? { ifVersion: seen.version } : { ifAbsent: true };
      const mark = { ...ownMark() } as Json;
      const version = await this.#store.put(this.#key, mark, { ttl: HOLD_SECONDS, ...condition });
      if (version !== undefined) return this.#have(version);
      seen = await this.#store.get(this.#key);
    }
    return true;
  }

  #have(version: string): true {
    this.#version = version;
    clearInterval(this.#renewing);
    this.#renewing = setInterval(() => void this.take(), RENEWAL).unref();
    return true;
  }

  #lose(): false {
    this.#version = undefined;
    clearInterval(this.#renewing);
    return false;
  }

  #next<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done;
    return done;
  }
}
