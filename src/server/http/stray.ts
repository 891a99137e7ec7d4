import type { RpcError } from '../../wire/index.ts';
import type { ServerEventSource } from '../events.ts';

/** The error for an unknown session id. Older clients then begin a new session. */
export const NOT_FOUND: RpcError = { code: -32001, message: 'Session not found' };

/**
 * A session id that the edge did not issue.
 *
 * The transport behind the edge may have issued it. A transport without sessions would ignore it, and the client would continue
 * in a session that nobody knows. The id is therefore judged when a transport accepts the request.
 */
export class Stray {
  readonly id: string;
  #onRefused: (() => void) | undefined;
  readonly #events: ServerEventSource;
  #verdict: 'known' | 'refused' | undefined;

  constructor(id: string, events: ServerEventSource) {
    this.id = id;
    this.#events = events;
  }

  /** Sets the function that takes over the HTTP response if nobody knows the id. */
  whenRefused(takeOver: () => void): void {
    if (this.#verdict === undefined) this.#onRefused = takeOver;
  }

  get isRefused(): boolean {
    return this.#verdict === 'refused';
  }

  /** Judges the id once for all messages of its request. Returns the error for them if the id is unknown. */
  judge(isKnown: boolean): RpcError | undefined {
    if (this.#verdict === undefined) {
      this.#verdict = isKnown ? 'known' : 'refused';
      // Values in an async context stay in memory with its promises.
      const onRefused = this.#onRefused;
      this.#onRefused = undefined;
      if (!isKnown) {
        this.#events.emit('rejected', {
          family: 'sessions',
          what: 'a transport session',
          reason: 'not made here',
        });
        onRefused?.();
      }
    }
    return this.isRefused ? NOT_FOUND : undefined;
  }
}
