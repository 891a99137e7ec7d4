import type { EventStore as EventStoreV1 } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import type { EventStore as EventStoreV2 } from '@modelcontextprotocol/server';
import { eventStore } from 'mcp-valise/adapters';
import { memoryStore, type Store } from 'mcp-valise/store';
import { virtualClock } from 'mcp-valise/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { places } from './places.ts';

type EventStore = ReturnType<typeof eventStore>;

const note = (n: number) => ({ jsonrpc: '2.0', method: 'notifications/n', params: { n } });

async function replayed(events: EventStore, after: string): Promise<number[]> {
  const numbers: number[] = [];
  await events.replayEventsAfter(after, {
    send: async (_id, message: { params: { n: number } }) => void numbers.push(message.params.n),
  });
  return numbers;
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index);

async function keysOf(store: Store): Promise<readonly string[]> {
  return (await store.list('')).keys;
}

async function keysOfAll(store: Store): Promise<readonly string[]> {
  const { keys, cursor } = await store.list('');
  return cursor === undefined ? keys : [...keys, ...(await store.list('', { cursor })).keys];
}

describe.each(places)('eventStore on %s', (_, share) => {
  it('fits both majors of the SDK, and replays what came after an event, in order, at another instance', async () => {
    const open = share();
    const first: EventStoreV1 & EventStoreV2 & EventStore = eventStore(await open(), { session: 's' });
    const second = eventStore(await open(), { session: 's' });
    const ids: string[] = [];
    for (const n of range(0, 100)) ids.push(await first.storeEvent('stream', note(n)));
    expect(new Set(ids).size).toBe(100);
    expect(await second.getStreamIdForEventId(ids[10] as string)).toBe('stream');
    expect(await replayed(second, ids[10] as string)).toEqual(range(11, 100));
    expect(await replayed(second, ids[99] as string)).toEqual([]);
  });

  it('keeps the order of calls that are made at once, and tells streams apart', async () => {
    const events = eventStore(await share()(), { session: 's' });
    const start = await events.storeEvent('a', {});
    const others = range(0, 50).map((n) => events.storeEvent('b', note(1000 + n)));
    const ids = await Promise.all(range(0, 200).map((n) => events.storeEvent('a', note(n))));
    await Promise.all(others);
    expect(await replayed(events, start)).toEqual(range(0, 200));
    expect(await replayed(events, ids[150] as string)).toEqual(range(151, 200));
  });

  it('loses no event when two instances write to one stream at once', async () => {
    const open = share();
    const instances = [await open(), await open()].map((store) => eventStore(store, { session: 's' }));
    const start = await (instances[0] as EventStore).storeEvent('a', {});
    await Promise.all(
      instances.map(async (events, instance) => {
        for (const n of range(0, 80)) await events.storeEvent('a', note(instance * 1000 + n));
      }),
    );
    const all = await replayed(instances[1] as EventStore, start);
    expect(all.filter((n) => n < 1000)).toEqual(range(0, 80));
    expect(all.filter((n) => n >= 1000)).toEqual(range(1000, 1080));
  });

  it('does not know the events of another session, not even on a stream of the same name', async () => {
    const store = await share()();
    const one = eventStore(store, { session: 'one' });
    const other = eventStore(store, { session: 'other' });
    const id = await one.storeEvent('_GET_stream', note(1));
    await other.storeEvent('_GET_stream', note(2));
    expect(await other.getStreamIdForEventId(id)).toBeUndefined();
    await expect(replayed(other, id)).rejects.toMatchObject({ code: 'not-found' });
  });

  it('drops the oldest events of a stream beyond maxEvents, and no longer knows what came before them', async () => {
    const store = await share()();
    const events = eventStore(store, { session: 's', maxEvents: 50 });
    const ids: string[] = [];
    for (const n of range(0, 300)) ids.push(await events.storeEvent('a', note(n)));
    expect(await events.getStreamIdForEventId(ids[100] as string)).toBeUndefined();
    await expect(replayed(events, ids[100] as string)).rejects.toMatchObject({ code: 'not-found' });
    expect(await replayed(events, ids[290] as string)).toEqual(range(291, 300));
    expect((await keysOf(store)).length).toBeLessThanOrEqual(5);
  });

  it('drops the oldest streams of a session beyond maxStreams', async () => {
    const store = await share()();
    const events = eventStore(store, { session: 's', maxStreams: 3 });
    const ids: string[] = [];
    for (const n of range(0, 10)) ids.push(await events.storeEvent(`stream ${n}`, note(n)));
    const known = await Promise.all(ids.map((id) => events.getStreamIdForEventId(id)));
    expect(known.filter(Boolean)).toEqual(['stream 7', 'stream 8', 'stream 9']);
    expect(await keysOf(store)).toHaveLength(5);
  });

  it('drops the sessions that were idle longest beyond maxSessions, with all of their streams', async () => {
    const open = share();
    const stores = [await open(), await open()];
    const instance = (n: number) =>
      eventStore(stores[n % 2] as Store, { session: `session ${n}`, maxSessions: 3 });
    const all: { events: EventStore; ids: string[] }[] = [];
    for (const n of range(0, 8)) {
      const events = instance(n);
      all.push({
        events,
        ids: [await events.storeEvent('_GET_stream', note(n)), await events.storeEvent('post', note(n))],
      });
    }
    const known = await Promise.all(all.map(({ events, ids }) => events.getStreamIdForEventId(ids[1] ?? '')));
    expect(known.map((found) => found !== undefined)).toEqual(range(0, 8).map((n) => n > 4));
    // Each session has two heads and an index of its streams; all share the index of sessions.
    expect(await keysOf(stores[0] as Store)).toHaveLength(3 * 3 + 1);

    // A session that was dropped and goes on is counted again, and its old events stay unknown.
    const { events, ids } = all[0] as (typeof all)[0];
    const next = await events.storeEvent('_GET_stream', note(100));
    expect(await events.getStreamIdForEventId(next)).toBe('_GET_stream');
    expect(await events.getStreamIdForEventId(ids[0] ?? '')).toBeUndefined();
    expect(await all[5]?.events.getStreamIdForEventId(all[5]?.ids[1] ?? '')).toBeUndefined();
  });
});

describe('eventStore', () => {
  it('keeps the standalone stream of a session however many requests are streamed', async () => {
    const store = memoryStore();
    const events = eventStore(store, { session: 's', maxStreams: 3 });
    const id = await events.storeEvent('_GET_stream', note(1));
    for (const n of range(0, 10)) await events.storeEvent(`request ${n}`, note(n));
    expect(await events.getStreamIdForEventId(id)).toBe('_GET_stream');
    expect(await keysOf(store)).toHaveLength(6);
  });

  it('counts bytes, not characters', async () => {
    const events = eventStore(memoryStore(), { session: 's', maxBytes: 2000 });
    const before = await events.storeEvent('a', note(1));
    // 1,500 bytes in 500 characters, twice.
    for (const n of [2, 3]) await events.storeEvent('a', { ...note(n), more: '漢'.repeat(500) });
    expect(await events.getStreamIdForEventId(before)).toBeUndefined();
  });

  it('keeps about as many sessions as a limit that is spread over several entries says', async () => {
    const store = memoryStore();
    for (const n of range(0, 1500))
      await eventStore(store, { session: `${n}`, maxSessions: 1000 }).storeEvent('_GET_stream', note(n));
    const heads = (await keysOfAll(store)).filter((key) => key.includes('/head/'));
    expect(heads.length).toBeLessThanOrEqual(1000);
    expect(heads.length).toBeGreaterThan(900);
  });

  it('does not keep a message that is larger than maxBytes, and says that the stream cannot be resumed from before it', async () => {
    const events = eventStore(memoryStore(), { session: 's', maxBytes: 2000 });
    const before = await events.storeEvent('a', note(1));
    const large = await events.storeEvent('a', { ...note(2), more: 'x'.repeat(3000) });
    await events.storeEvent('a', note(3));
    expect(await events.getStreamIdForEventId(before)).toBeUndefined();
    expect(await replayed(events, large)).toEqual([3]);
  });

  it('forgets a stream once its time is over, also when a new one gets the same name', async () => {
    const clock = virtualClock();
    onTestFinished(() => clock.restore());
    const store = memoryStore();
    const events = eventStore(store, { session: 's', ttl: '1h' });
    const old = await events.storeEvent('a', note(1));
    await clock.advance('2h');
    expect(await keysOf(store)).toEqual([]);
    await events.storeEvent('a', note(2));
    await events.storeEvent('a', note(3));
    expect(await events.getStreamIdForEventId(old)).toBeUndefined();
  });

  it('counts a stream that outlives the lifetime of its events', async () => {
    const clock = virtualClock();
    onTestFinished(() => clock.restore());
    const store = memoryStore();
    const events = eventStore(store, { session: 's', ttl: '1h', maxStreams: 1 });
    const ids: string[] = [];
    for (const n of range(0, 100)) {
      ids.push(await events.storeEvent('long', note(n)));
      await clock.advance('5m');
    }
    expect(await events.getStreamIdForEventId(ids[10] as string)).toBeUndefined();
    expect(await replayed(events, ids[98] as string)).toEqual([99]);
    await events.storeEvent('next', note(1));
    expect(await events.getStreamIdForEventId(ids[99] as string)).toBeUndefined();
  });

  it.each([
    '',
    'x',
    '1.2.3',
    '0.AAAAAAAA.%',
    `0.AAAAAAAA.${'a'.repeat(5000)}`,
    '999999999999999.AAAAAAAA.a',
    '\n',
  ])('does not know the made-up event id %.40j', async (id) => {
    const events = eventStore(memoryStore(), { session: 's' });
    await events.storeEvent('a', note(1));
    expect(await events.getStreamIdForEventId(id)).toBeUndefined();
  });

  it.each([
    {},
    { session: '' },
    { session: 's', maxEvents: 0 },
    { session: 's', maxBytes: 1 },
    { session: 's', more: 1 },
  ])('refuses the options %j', (options) => {
    expect(() => eventStore(memoryStore(), options as never)).toThrow(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
  });
});
