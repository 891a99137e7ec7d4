import type { SessionsOptions } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isObject } from '../../src/core/json.ts';
import { resultOf, textOf } from './raw-client.ts';
import { behindEdge, connect, count, errorOf, makeServer, STAGES, type Wire } from './sessions-tool.ts';

const at = STAGES[2];
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

describe('an onEnd that does not return', () => {
  it('an onEnd that does not return does not delay other ends', async () => {
    const store = memoryStore();
    const told: string[] = [];
    let [stuck, goOn] = ['', (): void => {}];
    const sessions: SessionsOptions = {
      mode: 'stored',
      ttl: '1h',
      onEnd({ id }) {
        told.push(id);
        if (id === stuck) return new Promise((resolve) => (goOn = resolve));
      },
    };
    // Whichever instance comes to it first is the one that waits.
    const instances = [makeServer(count, { store, sessions }), makeServer(count, { store, sessions })];
    const warnings: string[] = [];
    for (const { valise } of instances) valise.on('warning', ({ what }) => warnings.push(what));
    const client = await connect(instances[0]?.valise as never, at);
    const made = async () => (resultOf(await client.request(at.method.create))['session'] as Wire).sessionId;
    stuck = await made();
    await vi.advanceTimersByTimeAsync(1200_000);
    const other = await made();
    await vi.advanceTimersByTimeAsync(3600_000 + 1200_000);
    expect(told).toContain(other);
    expect(told.filter((id) => id === other)).toHaveLength(1);
    expect(warnings).toContain('onEnd has not returned for a session in five minutes.');
    // One that only takes long is told of no more, once it is done.
    const before = told.length;
    stuck = '';
    goOn();
    await vi.advanceTimersByTimeAsync(1200_000);
    expect(told).toHaveLength(before);
    for (const { valise } of instances) await valise.close();
  });

  it('an onEnd that does not return does not prevent the next default session', async () => {
    const store = memoryStore();
    let isCut = true;
    /** Fails where what has been prepared is to be written down, so that its instance seems to have died. */
    const cut: Store = Object.assign(store, {
      put: (
        (put) =>
        async (...args: Parameters<Store['put']>) => {
          const [key, value] = args;
          if (isCut && key.includes('/record/') && isObject(value) && value['preparing'] !== true)
            throw new Error('the disk is gone');
          return put(...args);
        }
      )(store.put.bind(store)),
    });
    const log: string[] = [];
    const { valise } = makeServer(count, {
      store: cut,
      sessions: {
        mode: 'stored',
        onCreate: () => void log.push('create'),
        onEnd: () => {
          log.push('end');
          return new Promise(() => {});
        },
      },
    });
    const warnings: string[] = [];
    valise.on('warning', ({ what }) => warnings.push(what));
    const call = async () => {
      const client = await connect(valise, at, {}, { http: true });
      const params = { name: 'gated', arguments: {} };
      return behindEdge(valise, 'edge-1', () => client.request('tools/call', params));
    };
    await call();
    isCut = false;
    const second = call();
    await vi.advanceTimersByTimeAsync(1000);
    expect(log).toEqual(['create', 'end']);
    await vi.advanceTimersByTimeAsync(100_000);
    expect(log).toEqual(['create', 'end', 'create']);
    expect(textOf(resultOf(await second))).toBe('1');
    expect(warnings).toContain(
      'onEnd has not returned for a default session in a minute. The next session with the same id is prepared now.',
    );
    await valise.close();
  });
});

describe('an instance that is frozen in onCreate for so long that it is taken for dead', () => {
  it('onEnd is called once more after an onCreate that outlived its instance’s deadline', async () => {
    const log: string[] = [];
    let goOn = (): void => {};
    // Intervals do not run here: nothing is heard of whoever prepares a session.
    const { valise } = makeServer(count, {
      store: memoryStore(),
      sessions: {
        mode: 'stored',
        async onCreate() {
          await new Promise<void>((resolve) => (goOn = resolve));
          log.push('created');
        },
        onEnd: ({ reason }) => void log.push(reason),
      },
    });
    const client = await connect(valise, at);
    const made = client.request(at.method.create);
    await vi.advanceTimersByTimeAsync(400_000);
    expect(log).toEqual(['expired']);
    goOn();
    expect(errorOf(await made)).toMatchObject({ data: { code: 'session-gone' } });
    await vi.advanceTimersByTimeAsync(1200_000);
    expect(log).toEqual(['expired', 'created', 'expired']);
    await valise.close();
  });
});
