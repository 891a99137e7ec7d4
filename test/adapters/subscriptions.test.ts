import { ProtocolError } from '@modelcontextprotocol/server';
import { mcpEventStore, subscriptionStore } from 'mcp-valise/adapters';
import { memoryStore, type Store } from 'mcp-valise/store';
import { virtualClock } from 'mcp-valise/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { places } from './places.ts';

const pending = (key: string) => ({
  key,
  name: 'changed',
  arguments: {},
  definition: { name: 'changed', delivery: [], inputSchema: true, payloadSchema: true },
  delivery: { mode: 'webhook' as const, url: 'https://hook.example/', secret: 'whsec_1' },
  cursor: null,
  truncated: false,
  status: 'pending' as const,
});

const owner = 'ann https://a.example';
const range = (to: number) => Array.from({ length: to }, (_, index) => index);

describe.each(places)('mcpEventStore on %s', (_, share) => {
  it('finds a subscription by key and by id at another instance, for its owner only', async () => {
    const open = share();
    const first = mcpEventStore(await open(), { owner });
    const second = mcpEventStore(await open(), { owner });
    const other = mcpEventStore(await open(), { owner: 'bob' });
    await first.set(pending('k'));
    expect(await second.get('k')).toEqual(pending('k'));
    expect(await second.getById('i')).toBeUndefined();
    await second.update('k', { id: 'i', status: 'active' });
    const active = { ...pending('k'), id: 'i', status: 'active' };
    expect(await first.getById('i')).toEqual(active);
    expect(await first.get('k')).toEqual(active);
    expect(await other.get('k')).toBeUndefined();
    expect(await other.getById('i')).toBeUndefined();
    await first.update('k', { id: 'j' });
    expect(await second.getById('i')).toBeUndefined();
    await first.delete('k');
    expect(await second.get('k')).toBeUndefined();
    expect(await second.getById('j')).toBeUndefined();
    await expect(second.update('k', { cursor: 'c' })).rejects.toMatchObject({ code: 'not-found' });
  });

  it('merges the updates of two instances', async () => {
    const open = share();
    const instances = [mcpEventStore(await open(), { owner }), mcpEventStore(await open(), { owner })];
    await instances[0]?.set(pending('k'));
    await Promise.all(range(20).map((n) => instances[n % 2]?.update('k', { [`f${n}`]: n } as object)));
    const all = Object.fromEntries(range(20).map((n) => [`f${n}`, n]));
    expect(await instances[0]?.get('k')).toEqual({ ...pending('k'), ...all });
  });

  it('refuses subscriptions beyond maxSubscriptions', async () => {
    const events = mcpEventStore(await share()(), { owner, maxSubscriptions: 2 });
    for (const key of ['a', 'b', 'b']) await events.set(pending(key));
    await expect(events.set(pending('c'))).rejects.toMatchObject({
      code: 'limit-reached',
    });
    await events.delete('a');
    await events.set(pending('c'));
  });
});

const keyOf = (id: string, principal = 'ann') => ({
  id,
  principal,
  name: 'changed',
  arguments: { list: 1 },
  url: 'https://hook.example/',
});
const granted = (id: string, principal?: string) => ({
  ...keyOf(id, principal),
  secret: 'whsec_1',
  refreshBefore: new Date(Date.now() + 3_600_000).toISOString(),
  cursor: null,
});

async function activeIds(subscriptions: ReturnType<typeof subscriptionStore>, name = 'changed') {
  const ids: string[] = [];
  for await (const { id } of subscriptions.active(name)) ids.push(id);
  return ids.sort();
}

describe.each(places)('subscriptionStore on %s', (_, share) => {
  it('confirms an attempt at another instance, and shows it to the worker of any', async () => {
    const open = share();
    const first = subscriptionStore(await open());
    const second = subscriptionStore(await open());
    const operation = await first.prepare(keyOf('s'));
    expect(await activeIds(first)).toEqual([]);
    expect(await second.upsert(granted('s'), {}, operation)).toEqual({ cursor: null, truncated: false });
    // The same commit again changes nothing.
    const again = { ...granted('s'), secret: 'whsec_other' };
    expect(await first.upsert(again, {}, operation)).toEqual({ cursor: null, truncated: false });
    for await (const one of first.active('changed'))
      expect(one).toMatchObject({ id: 's', secret: 'whsec_1' });
    expect(await activeIds(second)).toEqual(['s']);
    expect(await activeIds(second, 'else')).toEqual([]);
    expect(await first.delivered(keyOf('s'), { cursor: 'c1' })).toMatchObject({ cursor: 'c1' });

    // A refresh neither rewinds nor loses where the deliveries are, and takes the new secret.
    const refresh = await second.prepare(keyOf('s'));
    expect(await activeIds(first)).toEqual(['s']);
    expect(await first.upsert({ ...granted('s'), secret: 'whsec_2', cursor: 'c0' }, {}, refresh)).toEqual({
      cursor: 'c1',
      truncated: false,
    });
    expect(await second.delivered(keyOf('s'))).toMatchObject({ secret: 'whsec_2', cursor: 'c1' });
    expect(await second.remove(keyOf('s'))).toBe(true);
    expect(await first.remove(keyOf('s'))).toBe(false);
    expect(await first.delivered(keyOf('s'), { cursor: 'c2' })).toBeUndefined();
    expect(await activeIds(second)).toEqual([]);
  });

  it('refuses an attempt that was replaced or removed, whichever instance commits it', async () => {
    const open = share();
    const first = subscriptionStore(await open());
    const second = subscriptionStore(await open());
    const old = await first.prepare(keyOf('s'));
    const replaced = await second.prepare(keyOf('s'));
    await expect(first.upsert(granted('s'), {}, old)).rejects.toMatchObject({ code: 'already-done' });
    expect(await second.remove(keyOf('s'))).toBe(true);
    await expect(second.upsert(granted('s'), {}, replaced)).rejects.toMatchObject({
      code: 'already-done',
    });
    const operations = await Promise.all(range(6).map((n) => (n % 2 ? first : second).prepare(keyOf('s'))));
    const commits = await Promise.allSettled(operations.map((one) => first.upsert(granted('s'), {}, one)));
    expect(commits.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  it('limits the subscriptions of each principal, attempts included', async () => {
    const subscriptions = subscriptionStore(await share()(), { maxSubscriptions: 2 });
    await subscriptions.upsert(granted('a'), {}, await subscriptions.prepare(keyOf('a')));
    await subscriptions.prepare(keyOf('b'));
    const refusal = subscriptions.prepare(keyOf('c'));
    await expect(refusal).rejects.toBeInstanceOf(ProtocolError);
    await expect(refusal).rejects.toMatchObject({ code: -32013 });
    await subscriptions.prepare(keyOf('c', 'bob'));
    await subscriptions.remove(keyOf('b'));
    await subscriptions.prepare(keyOf('c'));
  });
});

describe('subscriptionStore', () => {
  it('forgets attempts and subscriptions when their time is over, and keeps those without end', async () => {
    const clock = virtualClock();
    onTestFinished(() => clock.restore());
    const store: Store = memoryStore();
    const subscriptions = subscriptionStore(store, { reservation: '1m' });
    const late = await subscriptions.prepare(keyOf('late'));
    const refreshBefore = new Date(Date.now() + 3_600_000).toISOString();
    await subscriptions.upsert(
      { ...granted('hour'), refreshBefore },
      {},
      await subscriptions.prepare(keyOf('hour')),
    );
    await clock.advance('2m');
    await expect(subscriptions.upsert(granted('late'), {}, late)).rejects.toMatchObject({
      code: 'already-done',
    });
    expect(await activeIds(subscriptions)).toEqual(['hour']);
    await clock.advance('2h');
    expect(await activeIds(subscriptions)).toEqual([]);
    expect((await store.list('')).keys).toEqual([]);
    const endless = await subscriptions.prepare(keyOf('endless'));
    await subscriptions.upsert({ ...granted('endless'), refreshBefore: null }, {}, endless);
    await clock.advance('400d');
    expect(await activeIds(subscriptions)).toEqual(['endless']);
  });

  it('says that events are missing if it cannot replay, and begins where the application says', async () => {
    const store = memoryStore();
    const plain = subscriptionStore(store);
    const withCursor = { ...granted('a'), cursor: 'c5' };
    expect(await plain.upsert(withCursor, {}, await plain.prepare(keyOf('a')))).toEqual({
      cursor: null,
      truncated: true,
    });
    const replaying = subscriptionStore(store, { replay: ({ cursor }) => ({ cursor, truncated: false }) });
    expect(
      await replaying.upsert({ ...granted('b'), cursor: 'c5' }, {}, await replaying.prepare(keyOf('b'))),
    ).toEqual({ cursor: 'c5', truncated: false });
  });

  it('leaves out a subscription whose deliveries were suspended, until it is refreshed', async () => {
    const subscriptions = subscriptionStore(memoryStore());
    await subscriptions.upsert(granted('a'), {}, await subscriptions.prepare(keyOf('a')));
    const status = { active: false, lastError: 'timeout' as const };
    await subscriptions.delivered(keyOf('a'), { status });
    expect(await activeIds(subscriptions)).toEqual([]);
    await subscriptions.upsert(granted('a'), {}, await subscriptions.prepare(keyOf('a')));
    expect(await activeIds(subscriptions)).toEqual(['a']);
  });
});
