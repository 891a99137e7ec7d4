import type { RpcError } from '../../wire/index.ts';
import type { ServerEventSource } from '../events.ts';

/** What is said to a session id that nobody here knows; older clients then begin a new session. */
export const NOT_FOUND: RpcError = { code: -32001, message: 'Session not found' };

/**
 * A session id that the edge did not make. The transport behind it may have made it; one without sessions would ignore it,
 * and the client would go on in a session that nobody knows. So it is judged where a transport takes up the request.
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

  /** What takes over the HTTP answer, where nobody knows the id. */
  whenRefused(takeOver: () => void): void {
    if (this.#verdict === undefined) this.#onRefused = takeOver;
  }

  get isRefused(): boolean {
    return this.#verdict === 'refused';
  }

  /** Judges it once for all messages of its request; the error that is their answer where it is not known. */
  judge(isKnown: boolean): RpcError | undefined {
    if (this.#verdict === undefined) {
      this.#verdict = isKnown ? 'known' : 'refused';
      // What goes along with promises stays in memory with them.
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
