import { isObject } from '../../json.ts';
import { isAway } from '../fault.ts';
import type { FlowRecords, RecordOptions } from '../flow/records.ts';

/** What an answer came to: messages for the client, and the round that they ask, if they ask one. */
export interface Mail {
  /** Messages as text, ready to be sent. */
  readonly messages: readonly string[];
  /** The number of the round that the last of them asks; absent where it is the call's answer. */
  readonly next?: number;
  /** True where the question was taken back, because its call was cancelled. */
  readonly cancelled?: boolean;
  /** True if the answer came to nothing and may be sent again: what comes of it then takes this one's place. */
  readonly undone?: boolean;
}

const SLACK = 120;

/**
 * Where clients without state of their own find what came of their answers: they answer on one connection and listen
 * on another, so the two may meet different instances. One small entry per round, gone with the round.
 */
export class Mailbox {
  readonly #records: FlowRecords;
  readonly #waiters = new Map<string, Set<() => void>>();

  constructor(records: FlowRecords) {
    this.#records = records;
  }

  /** Puts what came of a round. The first outcome stays until its time is over, whatever is sent later. */
  async put(
    flow: string,
    round: number,
    mail: Mail,
    life: Pick<RecordOptions, 'ttl' | 'caller'>,
  ): Promise<void> {
    const name = nameOf(flow, round);
    const isPut = await this.#records.update(
      name,
      (found) => (found && found['undone'] !== true ? undefined : mail),
      { ...life, ttl: life.ttl + SLACK },
    );
    if (!isPut) return;
    for (const wake of this.#waiters.get(name) ?? []) wake();
  }

  /** What has come of a round so far. */
  async find(flow: string, round: number): Promise<Mail | undefined> {
    const found = (await this.#records.get(nameOf(flow, round)))?.value;
    return isObject(found) && Array.isArray(found['messages']) ? (found as unknown as Mail) : undefined;
  }

  /** Waits for it, for so many milliseconds or until `signal`. It stays there: the client may have to fetch it again. */
  async wait(flow: string, round: number, ms: number, signal: AbortSignal): Promise<Mail | undefined> {
    const name = nameOf(flow, round);
    const end = performance.now() + ms;
    for (let pause = 50; !signal.aborted; pause = Math.min(pause * 1.5, 1000)) {
      const found = await this.find(flow, round).catch(unlessAway);
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

/** A store that is away for a moment must not end the wait: older clients come for their mail only once. */
function unlessAway(error: unknown): undefined {
  if (!isAway(error)) throw error;
}

function nameOf(flow: string, round: number): string {
  return `rounds/mail/${flow}.${round}`;
}
