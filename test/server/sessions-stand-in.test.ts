import type { ServerValise } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Response } from '../../src/wire/index.ts';
import { resultOf, textOf } from './raw-client.ts';
import { behindEdge, connect, count, errorOf, makeServer, STAGES } from './sessions-tool.ts';

const at = STAGES[2];
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

/** A call of a client that knows no sessions, in a transport session which only our edge proves. */
async function use(valise: ServerValise): Promise<Response> {
  const client = await connect(valise, at, {}, { http: true });
  return behindEdge(valise, 'edge-1', () => client.request('tools/call', { name: 'gated', arguments: {} }));
}
const counted = async (valise: ServerValise): Promise<string> => textOf(resultOf(await use(valise)));

/** A store whose rows of sessions a test watches, or keeps from being written. */
function watched(store: Store, row: (key: string, value: unknown) => void): Store {
  const put = store.put.bind(store);
  return Object.assign(store, {
    put: async (...args: Parameters<Store['put']>) => {
      if (args[0].includes('/row/')) row(args[0], args[1]);
      return put(...args);
    },
  });
}

describe('a session that stands in for a transport session', () => {
  it('is refused in a moment where its row is of a version that nobody here knows', async () => {
    const store = memoryStore();
    let [puts, last] = [0, ''];
    const { valise } = makeServer(count, {
      store: watched(store, (key) => {
        last = key;
        if (++puts > 1000) throw new Error('there is no end of it');
      }),
      sessions: { mode: 'stored', onConflict: 'fail' },
    });
    expect(await counted(valise)).toBe('1');
    const { value } = (await store.get(last)) ?? {};
    await store.put(last, { ...(value as object), created: 'in the spring' }, { ttl: 1000 });
    expect(errorOf(await use(valise)).message).toBe('Session conflict');
    await valise.close();
  });
});
