import { isObject } from '../../json.ts';
import { isAway } from '../fault.ts';
import type { FlowRecords, RecordOptions } from '../flows/records.ts';

/** The outcome of an answer: messages for the client, and the round that they ask, if any. */
export interface Mail {
  /** Messages as text, ready to be sent. */
  readonly messages: readonly string[];
  /** The number of the round that the last message asks. Absent if that message is the call's answer. */
  readonly next?: number;
  /** Whether the question was withdrawn because its call was cancelled. */
  readonly cancelled?: boolean;
  /** Whether the answer had no effect and may be sent again. The new outcome then replaces this one. */
  readonly undone?: boolean;
}

const SLACK = 120;

/**
 * Stores the outcome of answers for clients that carry no state.
 *
 * Such clients answer on one connection and listen on another, so the two may reach different instances. There is one small
 * entry per round, which ends with the round.
 */
export class Mailbox {
  readonly #records: FlowRecords;
  readonly #waiters = new Map<string, Set<() => void>>();

  constructor(records: FlowRecords) {
    this.#records = records;
  }

  /** Stores the outcome of a round. The first outcome stays until it expires, whatever is sent later, unless it is undone. */
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

  /** Returns the outcome of a round so far. */
  async find(flow: string, round: number): Promise<Mail | undefined> {
    const found = (await this.#records.get(nameOf(flow, round)))?.value;
    return isObject(found) && Array.isArray(found['messages']) ? (found as unknown as Mail) : undefined;
  }

  /**
   * Waits for the outcome, for up to `ms` milliseconds or until `signal`. It stays stored, since the client may fetch it again.
   */
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

  /** Waits until this instance stores the outcome, or for `ms`. Outcomes from other instances are found by polling. */
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

/** Ignores an unavailable store, which must not end the wait: older clients fetch their messages only once. */
function unlessAway(error: unknown): undefined {
  if (!isAway(error)) throw error;
}

function nameOf(flow: string, round: number): string {
  return `rounds/mail/${flow}.${round}`;
}
