import { describe, expect, it } from 'vitest';
import { MAX_HELD, NotificationOrder } from '../../src/core/notification-order.ts';

describe('the order of notifications', () => {
  it('A notification waits for the messages that came before it, and no others', () => {
    const delivered: string[] = [];
    const order = new NotificationOrder<string>((notification) => delivered.push(notification));
    const [first, second, third] = [{}, {}, {}];
    order.pass('at once');
    order.begin(first);
    order.begin(second);
    order.pass('behind both');
    order.begin(third);
    order.pass('behind all');
    order.end(second);
    expect(delivered).toEqual(['at once']);
    order.end(first);
    expect(delivered).toEqual(['at once', 'behind both']);
    order.end(third);
    expect(delivered).toEqual(['at once', 'behind both', 'behind all']);
  });

  it('A notification waits again for a message that is processed a second time', () => {
    const delivered: string[] = [];
    const order = new NotificationOrder<string>((notification) => delivered.push(notification));
    const [call, other] = [{}, {}];
    order.begin(call);
    order.end(call);
    order.begin(other);
    order.begin(call);
    order.pass('later');
    order.end(other);
    expect(delivered).toEqual([]);
    order.end(call);
    expect(delivered).toEqual(['later']);
  });

  it('The queue keeps no more notifications than its limit, and says which are dropped', () => {
    const delivered: number[] = [];
    const order = new NotificationOrder<number>((notification) => delivered.push(notification));
    const call = {};
    order.begin(call);
    const taken = Array.from({ length: MAX_HELD + 5 }, (_, number) => order.pass(number));
    expect(taken.filter((each) => !each)).toHaveLength(5);
    order.end(call);
    expect(delivered).toEqual(Array.from({ length: MAX_HELD }, (_, number) => number));
    expect(order.pass(-1)).toBe(true);
  });
});
