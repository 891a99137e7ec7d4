import { withErrand } from '../link/edge-fetch.ts';
import type { Dispatch } from '../link/instrument.ts';
import type { Top } from '../link/top.ts';
import type { Message, Params, Response } from '../wire/index.ts';
import { Call } from './call.ts';
import type { Connection } from './connection.ts';
import type { ClientPart } from './part.ts';

type Send = (message: Message) => Promise<void>;

/** How the calls of a connection leave: shown to the parts, sent, and sent once more where a part has put right why not. */
export class Departures {
  readonly #connection: Connection;
  readonly #parts: readonly ClientPart[];
  readonly #rescuers: readonly ClientPart[];

  constructor(connection: Connection, parts: readonly ClientPart[]) {
    this.#connection = connection;
    this.#parts = parts;
    this.#rescuers = parts.filter((part) => part.undelivered);
  }

  /** A call on its way out. A promise only where a part waits for something. */
  begin(call: Call): Dispatch | Promise<Dispatch> {
    for (let at = 0; at < this.#parts.length; at++) {
      const step = this.#parts[at]?.outbound?.(call);
      if (step instanceof Promise) return this.#prepare(call, step, at + 1).then(() => this.#late(call));
    }
    return this.#dispatch(call);
  }

  /**
   * Sends a call once more, with other params and another id on the wire. The parts see it as they saw the first, and
   * its response goes to whoever waits for the first one's.
   */
  async again(call: Call, params: Params | undefined, mark: string, top?: Top): Promise<void> {
    const { link } = this.#connection;
    const next = new Call(this.#connection, { ...call.request, params }, call.place, { top, mark });
    await this.#prepare(next);
    await this.#go(next, (message) => link.send(message));
  }

  /** True where a part has put right why the answer to a question of a call under way could not be delivered. */
  async putRight(call: Call, error: unknown): Promise<boolean> {
    for (const part of this.#rescuers) if (await part.undelivered?.(call, error)) return true;
    return false;
  }

  /** Shows a call to the parts that have not seen it yet. Until it goes it may be cancelled, and is not sent then. */
  async #prepare(call: Call, step?: Promise<void>, from = 0): Promise<void> {
    const { calls } = this.#connection;
    calls.prepare(call);
    try {
      await step;
      for (let at = from; at < this.#parts.length; at++) await this.#parts[at]?.outbound?.(call);
      // Behind what parts have made of the id.
      if (call.form.mark !== undefined) call.wireId = `${call.wireId}${call.form.mark}`;
    } catch (error) {
      calls.prepared(call);
      throw error;
    }
  }

  /** A call that had to wait. It may still be cancelled until the link sends it. */
  #late(call: Call): Dispatch {
    return { message: call.request, run: (send) => this.#go(call, send) };
  }

  /** Sends a call that was prepared, unless nobody waits for it any more. */
  #go(call: Call, send: Send): Promise<void> {
    this.#connection.calls.prepared(call);
    const out = call.isGivenUp ? this.#left(call) : this.#dispatch(call);
    if (out === undefined) return Promise.resolve();
    return 'run' in out ? out.run((other = out.message) => send(other)) : send(out);
  }

  /** Nobody waits for it: it holds up nobody else. */
  #left(call: Call): undefined {
    call.undelivered?.();
  }

  #dispatch(call: Call): Dispatch {
    const connection = this.#connection;
    connection.calls.add(call);
    const { errand, known } = call;
    if (known) {
      const response: Response = { jsonrpc: '2.0', id: call.wireId, result: known };
      // Not before the sender has gone on: the SDKs wait for an answer only once `send` has returned.
      queueMicrotask(() => connection.arrive(response));
      return undefined;
    }
    const message = call.outgoing();
    if (connection.target.kind === 'http' || call.undelivered)
      return { message, run: (send) => this.#rescue(call, message, send) };
    return errand ? { message, run: (send) => withErrand(errand, send) } : message;
  }

  /** Sends an undelivered call once more where a part has put right why; each part once. Transports other than HTTP close. */
  #rescue(call: Call, message: Message, send: Send): Promise<void> {
    const { errand } = call;
    const sending = errand ? withErrand(errand, () => send(message)) : send(message);
    return sending.catch((error: unknown) => this.#rescued(call, error, send));
  }

  async #rescued(call: Call, error: unknown, send: Send): Promise<void> {
    const { calls } = this.#connection;
    calls.drop(call);
    calls.prepare(call);
    try {
      const left = call.rescuers ?? this.#rescuers;
      for (const part of left) {
        const isRescued = await part.undelivered?.(call, error);
        if (!isRescued || call.isGivenUp) continue;
        const next = new Call(this.#connection, call.request, call.place, call.form);
        next.options = call.options;
        next.instead = call;
        next.rescuers = left.filter((other) => other !== part);
        const preparing = this.#prepare(next);
        calls.prepared(call);
        await preparing;
        return this.#go(next, send);
      }
      throw error;
    } finally {
      calls.prepared(call);
      // Its place, if it had one, is that of the next by now.
      call.undelivered?.();
    }
  }
}
