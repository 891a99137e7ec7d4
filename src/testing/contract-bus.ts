import assert from 'node:assert/strict';
import type { Json } from '../core/json.ts';
import type { Bus } from '../store/types.ts';
import { type Runner, until } from './contract-case.ts';

/**
 * Defines the contract of {@link Bus} as a test suite. Each call of `open` returns another handle on the same bus.
 *
 * @example
 * ```ts
 * busContract(() => openBus('redis://127.0.0.1:6379'), { describe, it }, { name: 'redis' });
 * ```
 */
export function busContract(
  open: () => Bus | Promise<Bus>,
  { describe, it }: Runner,
  { name = 'a bus' }: { readonly name?: string } = {},
): void {
  const withBuses = async (use: (one: Bus, two: Bus) => Promise<void>) => {
    const one = await open();
    const two = await open();
    try {
      await use(one, two);
    } finally {
      await Promise.all([one.close(), two.close()]);
    }
  };
  // Each case has its own topics, because a bus on a server is shared by all users of that server.
  const topicOf = (word: string) => `contract/${word}/${process.pid}/${Math.random().toString(36).slice(2)}`;

  describe(`${name} keeps the contract of a bus`, () => {
    it('Every listener of a topic, on every handle, receives the messages in order', () =>
      withBuses(async (one, two) => {
        const topic = topicOf('all');
        const heard: Record<string, Json[]> = { a: [], b: [], c: [] };
        await one.subscribe(topic, (message) => heard.a?.push(message));
        await two.subscribe(topic, (message) => heard.b?.push(message));
        await two.subscribe(topic, (message) => heard.c?.push(message));
        const messages: Json[] = Array.from({ length: 20 }, (_, n) => ({ n, text: '🧳 \u0000 \' "' }));
        for (const message of messages) await one.publish(topic, message);
        await until(async () => Object.values(heard).every((list) => list.length >= messages.length));
        for (const list of Object.values(heard)) assert.deepEqual(list, messages);
      }));

    it('Topics are distinct, including long ones and unusual characters', () =>
      withBuses(async (one, two) => {
        const odd = ['*', 'a"b', "a'b", 'ünï🧳', 'x'.repeat(300)].map((word) => topicOf(word));
        const heard = new Map<string, Json[]>(odd.map((topic) => [topic, []]));
        for (const topic of odd) await two.subscribe(topic, (message) => heard.get(topic)?.push(message));
        for (const topic of odd) await one.publish(topic, topic);
        await until(async () => [...heard.values()].every((list) => list.length >= 1));
        for (const [topic, list] of heard) assert.deepEqual(list, [topic]);
      }));

    it('A message of 100 KB arrives', () =>
      withBuses(async (one, two) => {
        const topic = topicOf('large');
        const large = { text: '🧳'.repeat(25_000) };
        const heard: Json[] = [];
        await two.subscribe(topic, (message) => heard.push(message));
        await one.publish(topic, large);
        await until(async () => heard.length > 0);
        assert.deepEqual(heard, [large]);
      }));

    it('A listener that has ended receives nothing, and the others still do', () =>
      withBuses(async (one, two) => {
        const topic = topicOf('end');
        const heard: Record<'ended' | 'stays', Json[]> = { ended: [], stays: [] };
        const end = await two.subscribe(topic, (message) => heard.ended.push(message));
        await two.subscribe(topic, (message) => heard.stays.push(message));
        await one.publish(topic, 1);
        await until(async () => heard.ended.length === 1 && heard.stays.length === 1);
        await end();
        await end();
        await one.publish(topic, 2);
        await until(async () => heard.stays.length === 2);
        assert.deepEqual(heard, { ended: [1], stays: [1, 2] });
      }));

    it('The other listeners receive messages when one throws', () =>
      withBuses(async (one, two) => {
        const topic = topicOf('throws');
        const heard: Json[] = [];
        const warnings: string[] = [];
        const warned = ({ message }: Error) => warnings.push(message);
        process.on('warning', warned);
        try {
          await two.subscribe(topic, () => {
            throw new Error('a listener of the contract throws');
          });
          await two.subscribe(topic, (message) => heard.push(message));
          await one.publish(topic, 1);
          await until(
            async () =>
              heard.length === 1 && warnings.some((text) => text.includes('of the contract throws')),
          );
        } finally {
          process.off('warning', warned);
        }
      }));

    it('A closed bus refuses operations', () =>
      withBuses(async (one) => {
        await one.close();
        await assert.rejects(one.publish('t', 1), { code: 'closed' });
        await assert.rejects(
          one.subscribe('t', () => {}),
          { code: 'closed' },
        );
        await one.close();
      }));
  });
}
