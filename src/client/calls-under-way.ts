import type { Id, Response } from '../wire/index.ts';
import type { Call } from './call.ts';

/** A server may have been done before it heard of the cancellation; as a rule it answers no cancelled call. */
const MAX_CANCELLED = 32;

/** The calls that wait for their response, by their id on the wire. */
export class CallsUnderWay {
  readonly #calls = new Map<Id, Call>();
  #cancelled: Call[] | undefined;

  get size(): number {
    return this.#calls.size;
  }

  /** All of them. */
  get all(): Call[] {
    return [...this.#calls.values()];
  }

  get(wireId: Id): Call | undefined {
    return this.#calls.get(wireId);
  }

  add(call: Call): void {
    this.#calls.set(call.wireId, call);
  }

  /** Takes out the call that a response is for. */
  take({ id }: Response): Call | undefined {
    if (id === undefined || id === null) return undefined;
    const call = this.#calls.get(id);
    if (call) this.#calls.delete(id);
    return call;
  }

  /** Waits no longer for a call's response. */
  drop(call: Call): void {
    if (this.#calls.get(call.wireId) === call) this.#calls.delete(call.wireId);
  }

  /** Notes that nobody waits for a call any more, and tells its id on the wire; the latest such calls may still be answered. */
  cancel(requestId: unknown): Id | undefined {
    for (const call of this.#calls.values()) {
      if (call.request.id !== requestId || call.cancelled) continue;
      call.cancelled = true;
      this.#cancelled ??= [];
      this.#cancelled.push(call);
      const oldest = this.#cancelled.length > MAX_CANCELLED && this.#cancelled.shift();
      if (oldest) this.drop(oldest);
      return call.wireId;
    }
    return undefined;
  }

  /** Nothing comes any more. */
  closed(): void {
    this.#cancelled = undefined;
    this.#calls.clear();
  }
}
