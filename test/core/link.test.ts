import { describe, expect, it } from 'vitest';
import { IncomingExchange, OutgoingExchange } from '../../src/core/exchange.ts';
import type { TransportLike } from '../../src/core/instrument.ts';
import { Link } from '../../src/core/link.ts';
import type { Id, Message, Notification, Request, Response } from '../../src/core/message.ts';

class In extends IncomingExchange {}

class Out extends OutgoingExchange {
  get wireId(): Id {
    return `x.${this.request.id}`;
  }

  outgoing(): Message {
    return { ...this.request, id: this.wireId };
  }
}

/** A link whose middlewares record the methods that pass. */
class TestLink extends Link<In, Out, never> {
  readonly seen: string[];

  constructor(transport: TransportLike) {
    const seen: string[] = [];
    const record = async <R>({ direction, method }: In | Out, next: () => Promise<R>): Promise<R> => {
      seen.push(`${direction} ${method}`);
      return next();
    };
    super(transport, { owner: {}, incoming: [record], outgoing: [record], setOnce: false });
    this.seen = seen;
  }

  protected decode = (message: Message) => ({ message });
  protected requested = (request: Request) => void this.serve(new In(request));
  protected requesting = (request: Request) => new Out(request);
  protected notified = (notification: Notification) => this.deliver(notification);
  protected overflowed = () => {};
  protected answered = () => {};
  protected failed(_exchange: In, error: unknown): never {
    throw error;
  }
}

/** A transport, what was sent over it, and what the SDK received from it. */
function linked() {
  const sent: Message[] = [];
  const received: Message[] = [];
  const transport: TransportLike = {
    start: async () => {},
    close: async () => transport.onclose?.(),
    send: async (message) => void sent.push(message as Message),
  };
  const link = new TestLink(transport);
  transport.onmessage = (message) => void received.push(message as Message);
  transport.onclose = () => {};
  return { link, transport, sent, received };
}

const call = (id: number): Request => ({ jsonrpc: '2.0', id, method: 'tools/call' });
const result = (id: Id): Response => ({ jsonrpc: '2.0', id, result: {} });
const cancelled = (requestId: Id): Notification => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId },
});

describe('a link', () => {
  it('A link sends a request under its id on the wire and delivers the response under the id of the SDK', async () => {
    const { link, transport, sent, received } = linked();
    await transport.send(call(1));
    expect(sent).toEqual([{ ...call(1), id: 'x.1' }]);
    transport.onmessage?.(result('x.1'));
    await expect.poll(() => received).toEqual([result(1)]);
    expect(link.seen).toEqual(['out tools/call']);
    expect(link.waiting.size).toBe(0);
  });

  it('A link tells the peer the wire id of a canceled request, which may still be answered', async () => {
    const { transport, sent, received } = linked();
    await transport.send(call(1));
    await transport.send(cancelled(1));
    expect(sent.at(-1)).toEqual(cancelled('x.1'));
    transport.onmessage?.(result('x.1'));
    await expect.poll(() => received).toEqual([result(1)]);
  });

  it('A link does not accumulate canceled requests that the peer never answers', async () => {
    const { link, transport } = linked();
    await transport.send(call(0));
    for (let id = 1; id <= 1000; id++) {
      await transport.send(call(id));
      await transport.send(cancelled(id));
    }
    expect(link.waiting.size).toBeLessThan(50);
    expect(link.waiting.get('x.0')).toBeDefined();
  });

  it('A link ends its requests when the transport closes', async () => {
    const { link, transport } = linked();
    await transport.send(call(1));
    const signal = link.waiting.get('x.1')?.signal;
    await transport.close();
    await expect.poll(() => link.waiting.size).toBe(0);
    expect(signal?.reason).toBe('closed');
  });

  it('A link passes a request of the peer through the middleware and sends the response of the SDK', async () => {
    const { link, transport, sent, received } = linked();
    transport.onmessage?.(call(7));
    await expect.poll(() => received).toEqual([call(7)]);
    await transport.send(result(7));
    await expect.poll(() => sent).toEqual([result(7)]);
    expect(link.seen).toEqual(['in tools/call']);
    expect(link.handling.size).toBe(0);
  });

  it('A link sends no response to a request that the peer has canceled', async () => {
    const { link, transport, sent, received } = linked();
    transport.onmessage?.(call(7));
    const signal = link.handling.get(7)?.signal;
    transport.onmessage?.(cancelled(7));
    expect(signal?.reason).toBe('cancelled');
    await expect.poll(() => received).toEqual([call(7), cancelled(7)]);
    await expect.poll(() => link.handling.size).toBe(0);
    expect(sent).toEqual([]);
  });
});
