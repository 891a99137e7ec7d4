import { oauthStorage, tokenStorage, transportStorage } from 'mcp-valise/adapters';
import { memoryStore, type Store } from 'mcp-valise/store';
import { virtualClock } from 'mcp-valise/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { places } from './places.ts';

const range = (to: number) => Array.from({ length: to }, (_, index) => index);

async function keysOf(store: Store): Promise<readonly string[]> {
  const keys = new Set<string>();
  let cursor: string | undefined;
  do {
    const options = cursor === undefined ? {} : { cursor };
    const page = await (store.scan?.('', options) ?? store.list('', options));
    for (const key of page.keys) keys.add(key);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return [...keys];
}

describe.each(places)('tokenStorage on %s', (_, share) => {
  it('returns at another instance what one saved, and null for what is absent', async () => {
    const open = share();
    const first = tokenStorage(await open());
    const second = tokenStorage(await open());
    const expiresAt = new Date();
    await first.save('code:1', { client: 'a', expiresAt }, 60);
    expect(await second.get('code:1')).toEqual({ client: 'a', expiresAt: expiresAt.toJSON() });
    expect(await second.get('code:2')).toBeNull();
    await second.delete('code:1');
    expect(await first.get('code:1')).toBeNull();
    expect(await first.take('code:1')).toBeNull();
    await first.cleanup();
  });

  it('gives a code to one of many callers at two instances', async () => {
    const open = share();
    const instances = [tokenStorage(await open()), tokenStorage(await open())];
    for (const round of range(5)) {
      await instances[0]?.save(`code:${round}`, { round }, 60);
      const taken = await Promise.all(range(10).map((n) => instances[n % 2]?.take(`code:${round}`)));
      expect(taken.filter((value) => value !== null)).toEqual([{ round }]);
    }
  });

  it('refuses entries of a kind beyond maxEntries, and takes those of another kind', async () => {
    const store = await share()();
    const tokens = tokenStorage(store, { maxEntries: 3 });
    for (const n of range(3)) await tokens.save(`client:${n}`, { n });
    await expect(tokens.save('client:3', {})).rejects.toMatchObject({ code: 'limit-reached' });
    await tokens.save('client:2', { again: true });
    await tokens.save('code:1', {}, 60);
    await tokens.take('client:0');
    await tokens.delete('client:1');
    await tokens.save('client:3', {});
    expect(await tokens.get('client:2')).toEqual({ again: true });
  });
});

describe('tokenStorage', () => {
  it('counts entries until their own lifetime is over, and keeps those without one while they are used', async () => {
    const clock = virtualClock();
    onTestFinished(() => clock.restore());
    const store = memoryStore();
    const tokens = tokenStorage(store, { maxEntries: 2, ttl: '10d' });
    for (const n of range(2)) await tokens.save(`code:${n}`, {}, 60);
    await clock.advance('2m');
    for (const n of range(2)) await tokens.save(`code:${n + 2}`, {}, 60);
    await tokens.save('client:1', { used: true });
    await tokens.save('client:2', { used: false });
    for (const _ of range(5)) {
      await clock.advance('6d');
      expect(await tokens.get('client:1')).toEqual({ used: true });
    }
    expect(await tokens.get('client:2')).toBeNull();
    expect(await keysOf(store)).toHaveLength(2);
    // A token may live longer than the idle timeout.
    await tokens.save('mapping:1', 1, 365 * 86_400);
    await clock.advance('300d');
    expect(await tokens.get('mapping:1')).toBe(1);
  });

  it('refuses an entry over maxBytes, and keys are not in the store', async () => {
    const store = memoryStore();
    const tokens = tokenStorage(store, { maxBytes: 1024 });
    await expect(tokens.save('code:1', '漢'.repeat(500), 60)).rejects.toMatchObject({
      code: 'too-large',
    });
    await tokens.save('code:secret', 1, 60);
    expect(JSON.stringify(await keysOf(store))).not.toContain('secret');
    expect(() => tokenStorage(store, { maxEntries: 0 })).toThrow(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
  });
});

describe.each(places)('oauthStorage on %s', (_, share) => {
  it('returns at another instance what one stored, for the same owner only', async () => {
    const open = share();
    const first = oauthStorage(await open(), { owner: 'ann https://a.example' });
    const second = oauthStorage(await open(), { owner: 'ann https://a.example' });
    const other = oauthStorage(await open(), { owner: 'bob https://a.example' });
    await first.set('tokens', '{"access_token":"x"}');
    expect(await second.get('tokens')).toBe('{"access_token":"x"}');
    expect(await other.get('tokens')).toBeUndefined();
    await other.delete('tokens');
    await second.set('tokens', '2');
    expect(await first.get('tokens')).toBe('2');
    await first.delete('tokens');
    expect(await second.get('tokens')).toBeUndefined();
  });
});

describe.each(places)('transportStorage on %s', (_, share) => {
  it('returns the state of a session at another instance, and drops the sessions that were idle longest', async () => {
    const open = share();
    const stores = [await open(), await open()];
    const at = (instance: number, session: string) =>
      transportStorage<{ initialized: boolean; sessionId: string }>(stores[instance] as Store, {
        session,
        maxSessions: 2,
      });
    expect(await at(0, 'a').get()).toBeUndefined();
    for (const session of ['a', 'b', 'c'])
      await at(0, session).set({ initialized: true, sessionId: session });
    expect(await at(1, 'c').get()).toEqual({ initialized: true, sessionId: 'c' });
    expect(await at(1, 'b').get()).toEqual({ initialized: true, sessionId: 'b' });
    expect(await at(1, 'a').get()).toBeUndefined();
    expect(await keysOf(stores[0] as Store)).toHaveLength(3);
  });
});

describe.each([
  ['oauthStorage', oauthStorage],
  ['transportStorage', transportStorage],
] as const)('%s', (_, make) => {
  it.each([{}, { owner: '' }, { session: '' }, { more: 1 }])('refuses the options %j', (options) => {
    expect(() => make(memoryStore(), options as never)).toThrow(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
  });
});
