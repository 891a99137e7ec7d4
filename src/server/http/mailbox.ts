import { isObject, type Json } from '../../json.ts';
import type { Store } from '../../store/types.ts';

/** What an answer came to: messages for the client, and the round that they ask, if they ask one. */
export interface Mail {
  /** Messages as text, ready to be sent. */
  readonly messages: readonly string[];
  /** The number of the round that the last of them asks; absent where it is the call's answer. */
  readonly next?: number;
}

const SLACK = 120;

/** Letters that are kept without a store; the oldest go first. */
const MOST = 10_000;

/**
 * Where clients without state of their own find what came of their answers: they answer on one connection and listen
 * on another, so the two may meet different instances. One small entry per round, gone with the round.
 */
export class Mailbox {
  readonly #store: Store | undefined;
  readonly #kept = new Map<string, Mail>();
  readonly #waiters = new Map<string, Set<() => void>>();

  constructor(store: Store | undefined) {
    this.#store = store;
  }

  /** Puts what came of a round's answer, for `ttl` seconds. */
  async put(flow: string, round: number, mail: Mail, ttl: number): Promise<void> {
    const name = nameOf(flow, round);
    if (this.#store) await this.#store.put(name, mail as unknown as Json, { ttl: ttl + SLACK });
    else this.#keep(name, mail);
    for (const wake of this.#waiters.get(name) ?? []) wake();
  }

  /** Without a store all of it is in this process: fine for one instance, and the edge says so. */
  #keep(name: string, mail: Mail): void {
    this.#kept.set(name, mail);
    if (this.#kept.size <= MOST) return;
    const [oldest] = this.#kept.keys();
    if (oldest !== undefined) this.#kept.delete(oldest);
  }

  async #find(name: string): Promise<Mail | undefined> {
    if (!this.#store) return this.#kept.get(name);
    const found = (await this.#store.get(name))?.value;
    return isObject(found) && Array.isArray(found['messages']) ? (found as unknown as Mail) : undefined;
  }

  /** Waits for it, for so many milliseconds or until `signal`. It stays there: the client may have to fetch it again. */
  async wait(flow: string, round: number, ms: number, signal: AbortSignal): Promise<Mail | undefined> {
    const name = nameOf(flow, round);
    const end = performance.now() + ms;
    for (let pause = 50; !signal.aborted; pause = Math.min(pause * 1.5, 1000)) {
      const found = await this.#find(name);
      if (found) return found;
      const left = end - performance.now();
      if (left <= 0) return undefined;
      await this.#woken(name, Math.min(pause, left), signal);
    }
    return undefined;
  }

  /** This instance hears of its own mail at once; of other instances' it hears by looking. */
  #woken(name: string, ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiters = this.#waiters.get(name) ?? new Set();
      this.#waiters.set(name, waiters);
      const wake = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', wake);
        waiters.delete(wake);
        if (waiters.size === 0) this.#waiters.delete(name);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      signal.addEventListener('abort', wake, { once: true });
      waiters.add(wake);
    });
  }
}

function nameOf(flow: string, round: number): string {
  return `rounds/mail/${flow}.${round}`;
}
