import { UnderWay } from '../link/under-way.ts';
import type { Id, Response } from '../wire/index.ts';
import type { Call } from './call.ts';

/** A server may have been done before it heard of the cancellation; as a rule it answers no cancelled call. */
const MAX_CANCELLED = 32;

/** The calls that wait for their response, by their id on the wire. */
export class CallsUnderWay {
  readonly #calls = new UnderWay<Call>();
  #cancelled: Call[] | undefined;
  /** Those that have not been sent yet, or are to be sent once more. */
  #preparing: Set<Call> | undefined;

  get size(): number {
    return this.#calls.size;
  }

  /** All of them. */
  get all(): Call[] {
    return this.#calls.values();
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
    return this.#calls.take(id);
  }

  /** Waits no longer for a call's response. */
  drop(call: Call): void {
    if (this.#calls.get(call.wireId) === call) this.#calls.take(call.wireId);
  }

  /** A call is being made ready: until {@link prepared} it can be cancelled, and is not sent then. */
  prepare(call: Call): void {
    this.#preparing ??= new Set();
    this.#preparing.add(call);
  }

  /** It goes out now, or never; to be said where nothing comes in between, so that no cancellation overtakes it. */
  prepared(call: Call): void {
    this.#preparing?.delete(call);
  }

  /** Notes that nobody waits for a call any more, and tells which it is; the latest that were sent may still be answered. */
  cancel(requestId: unknown): Call | undefined {
    for (const call of this.#preparing ?? []) {
      if (call.request.id !== requestId || call.cancelled) continue;
      call.cancelled = true;
      return call;
    }
    for (const call of this.#calls.values()) {
      if (call.request.id !== requestId || call.cancelled) continue;
      call.cancelled = true;
      this.#cancelled ??= [];
      this.#cancelled.push(call);
      const oldest = this.#cancelled.length > MAX_CANCELLED && this.#cancelled.shift();
      if (oldest) this.drop(oldest);
      return call;
    }
    return undefined;
  }

  /** Nothing comes any more. */
  closed(): void {
    this.#cancelled = undefined;
    this.#calls.clear();
  }
}
