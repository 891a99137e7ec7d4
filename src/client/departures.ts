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
      if (step instanceof Promise)
        return this.#prepare(call, step, at + 1).then(() =>
          call.cancelled ? undefined : this.#dispatch(call),
        );
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
    const out = next.cancelled ? undefined : this.#dispatch(next);
    if (out === undefined) return;
    await ('run' in out ? out.run((other = out.message) => link.send(other)) : link.send(out));
  }

  /** Shows a call to the parts that have not seen it yet. Until that is done it may be cancelled, and is not sent then. */
  #prepare(call: Call, step?: Promise<void>, from = 0): Promise<void> {
    return this.#connection.calls.preparing(call, async () => {
      await step;
      for (let at = from; at < this.#parts.length; at++) await this.#parts[at]?.outbound?.(call);
      // Behind what parts have made of the id.
      if (call.form.mark !== undefined) call.wireId = `${call.wireId}${call.form.mark}`;
    });
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
    this.#connection.leave(call);
    const left = call.rescuers ?? this.#rescuers;
    for (const part of left) {
      const isRescued = await calls.preparing(call, async () => part.undelivered?.(call, error));
      if (!isRescued || call.cancelled) continue;
      const next = new Call(this.#connection, call.request, call.place, call.form);
      next.rescuers = left.filter((other) => other !== part);
      await this.#prepare(next);
      if (next.cancelled) return;
      calls.add(next);
      return this.#rescue(next, next.outgoing(), send);
    }
    throw error;
  }
}
