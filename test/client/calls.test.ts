import { describe, expect, it } from 'vitest';
import type { Call } from '../../src/client/call.ts';
import { Calls } from '../../src/client/calls.ts';

const call = (id: number, wireId: string | number = id): Call => {
  const request = { jsonrpc: '2.0', id, method: 'tools/call' };
  const made = { request, wireId, cancelled: false, cancel: () => void (made.cancelled = true) };
  return made as unknown as Call;
};
const answer = (id: string | number) => ({ jsonrpc: '2.0' as const, id, result: {} });

/** A call that ends when it is left, as the connection's do. */
function leaving(calls: Calls, left: Call): Call {
  return Object.assign(left, { leave: () => calls.end(left) });
}

/** Begins a call and sends it. */
function send(calls: Calls, sent: Call): void {
  calls.begin(sent);
  calls.send(sent);
}

describe('the calls of a connection', () => {
  it('are found by their id on the wire, once', () => {
    const calls = new Calls();
    const one = call(1, 'x.1');
    send(calls, one);
    expect([calls.take(answer('x.1')), calls.take(answer('x.1'))]).toEqual([one, undefined]);
  });

  it('are told to the server by that id where they are cancelled, and may still be answered', () => {
    const calls = new Calls();
    const one = call(1, 'x.1');
    send(calls, one);
    expect([calls.cancel(1, 'cancelled')?.wireId, calls.cancel(2, 'cancelled')]).toEqual(['x.1', undefined]);
    expect(one.cancelled).toBe(true);
    expect(calls.take(answer('x.1'))).toBe(one);
  });

  it('do not pile up where they are cancelled and never answered', () => {
    const calls = new Calls();
    const waits = call(0);
    send(calls, waits);
    for (let id = 1; id <= 1000; id++) {
      send(calls, leaving(calls, call(id)));
      calls.cancel(id, 'cancelled');
    }
    expect(calls.all.length).toBeLessThan(50);
    expect(calls.all).toContain(waits);
  });

  it('end with the connection', () => {
    const calls = new Calls();
    send(calls, leaving(calls, call(1)));
    calls.closed();
    expect(calls.all).toEqual([]);
  });
});
