import type { Id, Response } from '../wire/index.ts';
import type { Call } from './call.ts';

/** A server may have been done before it heard of the cancellation; as a rule it answers no cancelled call. */
const MAX_CANCELLED = 32;

/** The calls of a connection. */
export class Calls {
  /** All that have not ended. */
  readonly #open = new Set<Call>();
  /** Those that wait for their response, by their id on the wire. */
  readonly #sent = new Map<Id, Call>();
  #cancelled: Call[] = [];

  /** How many wait for their response. */
  get size(): number {
    return this.#sent.size;
  }

  /** Those that wait for their response. */
  get all(): Call[] {
    return [...this.#sent.values()];
  }

  get(wireId: Id): Call | undefined {
    return this.#sent.get(wireId);
  }

  begin(call: Call): void {
    this.#open.add(call);
  }

  /** It goes out now. */
  send(call: Call): void {
    this.#sent.set(call.wireId, call);
  }

  /** Takes out the call that a response is for. */
  take({ id }: Response): Call | undefined {
    const call = this.#sent.get(id as Id);
    if (call) this.#sent.delete(id as Id);
    return call;
  }

  /** Waits no longer for a call's response. */
  drop(call: Call): void {
    if (this.#sent.get(call.wireId) === call) this.#sent.delete(call.wireId);
  }

  end(call: Call): void {
    this.#open.delete(call);
    this.drop(call);
  }

  /** Notes that nobody waits for a call any more, and tells which it is; the latest that were sent may still be answered. */
  cancel(requestId: unknown): Call | undefined {
    for (const call of this.#open) {
      if (call.request.id !== requestId || call.cancelled) continue;
      call.cancelled = true;
      if (this.get(call.wireId) !== call) return call;
      this.#cancelled.push(call);
      if (this.#cancelled.length > MAX_CANCELLED) this.#cancelled.shift()?.leave();
      return call;
    }
    return undefined;
  }

  /** Nothing comes any more. */
  closed(): void {
    for (const call of this.#open) call.leave();
    this.#cancelled = [];
  }
}
