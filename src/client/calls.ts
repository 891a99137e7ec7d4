import type { AbortReason } from '../core/exchange.ts';
import type { Id, Response } from '../wire/index.ts';
import type { Call } from './call.ts';

/**
 * The maximum number of cancelled calls that may still be answered. A server may finish before it receives the
 * cancellation, but usually does not answer a cancelled call.
 */
const MAX_CANCELLED = 32;

/** The calls of a connection. */
export class Calls {
  /** All calls that have not ended. */
  readonly #open = new Set<Call>();
  /** The calls that wait for their response, by their id on the wire. */
  readonly #sent = new Map<Id, Call>();
  #cancelled: Call[] = [];

  /** The number of calls that wait for their response. */
  get size(): number {
    return this.#sent.size;
  }

  /** The calls that wait for their response. */
  get all(): Call[] {
    return [...this.#sent.values()];
  }

  get(wireId: Id): Call | undefined {
    return this.#sent.get(wireId);
  }

  begin(call: Call): void {
    this.#open.add(call);
  }

  /** Registers a call that is about to be sent. */
  send(call: Call): void {
    this.#sent.set(call.wireId, call);
  }

  /** Removes and returns the call that a response belongs to. */
  take({ id }: Response): Call | undefined {
    const call = this.#sent.get(id as Id);
    if (call) this.#sent.delete(id as Id);
    return call;
  }

  /** Stops waiting for a call's response. */
  drop(call: Call): void {
    if (this.#sent.get(call.wireId) === call) this.#sent.delete(call.wireId);
  }

  end(call: Call): void {
    this.#open.delete(call);
    this.drop(call);
  }

  /** Marks a call as cancelled and returns it. The most recently cancelled calls that were sent may still be answered. */
  cancel(requestId: unknown, reason: AbortReason): Call | undefined {
    for (const call of this.#open) {
      if (call.request.id !== requestId || call.cancelled) continue;
      call.cancel(reason);
      if (this.get(call.wireId) !== call) return call;
      this.#cancelled.push(call);
      if (this.#cancelled.length > MAX_CANCELLED) this.#cancelled.shift()?.leave();
      return call;
    }
    return undefined;
  }

  /** Ends all calls without a response. */
  closed(): void {
    for (const call of this.#open) call.leave();
    this.#cancelled = [];
  }
}
