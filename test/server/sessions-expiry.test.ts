import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { resultOf, textOf } from './raw-client.ts';
import { behindEdge, connect, count, makeServer, STAGES } from './sessions-tool.ts';

const at = STAGES[2];
afterEach(() => void vi.useRealTimers());

describe('the end of a session', () => {
  it.each([
    ['with a store', memoryStore],
    ['without a store', () => undefined],
  ])('a session that is known by its seal alone ends once, %s', async (_, store) => {
    const ended: string[] = [];
    const { valise } = makeServer(count, {
      store: store(),
      sessions: { mode: 'sealed', onEnd: ({ id }) => void ended.push(id) },
    });
    const all = await Promise.all([1, 2, 3].map(() => valise.sessions.revoke('sess-elsewhere')));
    expect(all.filter(Boolean)).toHaveLength(1);
    expect(ended).toEqual(['sess-elsewhere']);
    await valise.close();
  });

  it('onEnd is called once for an expired default session, and not for the one that took its place', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const store = memoryStore();
    const { put } = store;
    let late: (() => Promise<void>) | undefined;
    // The note that it ran out arrives only after the next call.
    store.put = (key, value, options) => {
      if ((value as { ended?: unknown })?.ended !== 'expired' || late)
        return put.call(store, key, value, options);
      return new Promise((resolve) => {
        late = async () => resolve(await put.call(store, key, value, options));
      });
    };
    const ended: string[] = [];
    const { valise } = makeServer(count, {
      store,
      sessions: { mode: 'stored', ttl: '1h', onEnd: ({ reason }) => void ended.push(reason) },
    });
    const call = async () => {
      const client = await connect(valise, at, {}, { http: true });
      const params = { name: 'gated', arguments: {} };
      const answer = behindEdge(valise, 'edge-1', () => client.request('tools/call', params));
      return textOf(resultOf(await answer));
    };
    expect([await call(), await call()]).toEqual(['1', '2']);
    vi.setSystemTime(Date.now() + 3600_001);
    expect(await call()).toBe('1');
    await late?.();
    expect([await call(), await call()]).toEqual(['2', '3']);
    await expect.poll(() => ended).toEqual(['expired']);
    await valise.close();
  });
});
