import type { ServerValise, ServerValiseOptions, SessionsOptions } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isObject } from '../../src/core/json.ts';
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
      if (args[0].includes('/record/')) row(args[0], args[1]);
      return put(...args);
    },
  });
}

describe('default sessions', () => {
  const asking = async (options: Partial<ServerValiseOptions>, http: boolean) => {
    const warnings: string[] = [];
    const { valise } = makeServer((session) => session?.id ?? 'none', {
      ...options,
      events: { warning: ({ what, next }) => warnings.push(`${what} ${next}`) },
    });
    const client = await connect(valise, at, {}, { http });
    const call = () => client.call('work');
    for (let times = 0; times < 2; times++)
      expect(textOf(await (http ? behindEdge(valise, `asking ${++calls}`, call) : call()))).toBe('"none"');
    await valise.close();
    return warnings;
  };
  let calls = 0;

  it('valise.session() returns undefined and warns if there is an onCreate and the operation requires no session', async () => {
    const sessions = { onCreate: () => undefined };
    const told = [expect.stringMatching(/onCreate.*sessions\.require/)];
    expect(await asking({ sessions }, false)).toEqual(told);
    expect(await asking({ sessions, store: memoryStore() }, true)).toEqual(told);
  });

  it('valise.session() returns undefined and warns if only the HTTP edge proves the transport session and there is no store', async () => {
    expect(await asking({}, true)).toEqual([expect.stringMatching(/no store.*Give createValise a store/)]);
  });

  it('a default session whose record cannot be read is refused at once', async () => {
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

  describe('default sessions with onCreate', () => {
    const log: string[] = [];
    beforeEach(() => void log.splice(0));
    const hooks: SessionsOptions = {
      mode: 'stored',
      onCreate: () => void log.push('create'),
      onEnd: ({ reason }) => void log.push(`end ${reason}`),
    };
    const cut = { off: true };
    /** Fails where what has been prepared is to be written down. */
    const failing = () =>
      watched(memoryStore(), (_, value) => {
        if (cut.off && isObject(value) && value['preparing'] !== true) throw new Error('the disk is gone');
      });

    it('onEnd is called later if the store failed after onCreate', async () => {
      const { valise } = makeServer(count, { store: failing(), sessions: hooks });
      cut.off = true;
      expect(errorOf(await use(valise)).code).toBe(-32603);
      cut.off = false;
      await vi.advanceTimersByTimeAsync(200_000);
      expect(log).toEqual(['create']);
      await vi.advanceTimersByTimeAsync(200_000);
      expect(log).toEqual(['create', 'end expired']);
      await vi.advanceTimersByTimeAsync(800_000);
      expect(log).toHaveLength(2);
      await valise.close();
    });

    it('onEnd is called for the previous default session before the next one is prepared', async () => {
      const { valise } = makeServer(count, { store: failing(), sessions: hooks });
      cut.off = true;
      await use(valise);
      cut.off = false;
      expect([await counted(valise), await counted(valise)]).toEqual(['1', '2']);
      await vi.advanceTimersByTimeAsync(800_000);
      expect(log).toEqual(['create', 'end expired', 'create']);
      await valise.close();
    });

    it('onEnd is called for a default session that is revoked during onCreate, and its call is refused', async () => {
      const sessions: SessionsOptions = {
        ...hooks,
        async onCreate({ id }) {
          log.push('create');
          await valise.sessions.revoke(id);
        },
      };
      const { valise, ran } = makeServer(count, { store: memoryStore(), sessions });
      expect(errorOf(await use(valise))).toMatchObject({ data: { code: 'session-gone' } });
      expect(log).toEqual(['create', 'end revoked']);
      expect(ran()).toBe(0);
      await valise.close();
    });

    it('a default session begins with the next call after a failed onCreate', async () => {
      const onCreate = vi.fn(hooks.onCreate).mockRejectedValueOnce(new Error('no browser is free'));
      const { valise } = makeServer(count, { store: memoryStore(), sessions: { ...hooks, onCreate } });
      expect(errorOf(await use(valise)).message).toBe('no browser is free');
      expect(await counted(valise)).toBe('1');
      await vi.advanceTimersByTimeAsync(800_000);
      expect(log).toEqual(['create']);
      await valise.close();
    });
  });

  it('onEnd is retried until it succeeds, even after another default session has taken the id', async () => {
    const told: unknown[] = [];
    const { valise } = makeServer(count, {
      store: memoryStore(),
      sessions: {
        mode: 'stored',
        ttl: '1h',
        lifetime: 'fixed',
        onEnd({ reason, get }) {
          told.push([reason, get('n')]);
          if (told.length < 3) throw new Error('the browser service is away');
        },
      },
    });
    expect([await counted(valise), await counted(valise)]).toEqual(['1', '2']);
    vi.setSystemTime(Date.now() + 3600_001);
    expect(await counted(valise)).toBe('1');
    await vi.advanceTimersByTimeAsync(1000);
    expect(told).toEqual([['expired', 2]]);
    await vi.advanceTimersByTimeAsync(400_000);
    expect(told).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(2_000_000);
    expect(told).toEqual([
      ['expired', 2],
      ['expired', 2],
      ['expired', 2],
    ]);
    await vi.advanceTimersByTimeAsync(2_000_000);
    expect(told.slice(3)).toEqual([['expired', 1]]);
    await valise.close();
  });
});
