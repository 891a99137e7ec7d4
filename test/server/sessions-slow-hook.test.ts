import type { ServerValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { resultOf } from './raw-client.ts';
import { connect, count, errorOf, makeServer, STAGES, type Wire } from './sessions-tool.ts';

const at = STAGES[2];
const TIMERS = ['Date', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const;
beforeEach(() => void vi.useFakeTimers({ toFake: [...TIMERS] }));
afterEach(() => void vi.useRealTimers());

describe.each(['sealed', 'stored'] as const)('a %s session with a slow onCreate', (mode) => {
  /** Begins one, lets a quarter of an hour pass before it is ready, and another one after that. */
  const slowly = async (meanwhile: (id: string, valise: ServerValise) => unknown = () => {}) => {
    const log: string[] = [];
    let ready = (): void => {};
    let entered = (_id: string): void => {};
    const id = new Promise<string>((resolve) => {
      entered = resolve;
    });
    const { valise } = makeServer(count, {
      store: memoryStore(),
      principal: () => ({ subject: 'ann' }),
      sessions: {
        mode,
        onCreate(session) {
          entered(session.id);
          return new Promise((resolve) => {
            ready = resolve;
          });
        },
        onEnd: ({ reason }) => void log.push(reason),
      },
    });
    const client = await connect(valise, at);
    const made = client.request(at.method.create);
    await meanwhile(await id, valise);
    await vi.advanceTimersByTimeAsync(900_000);
    expect(log).toEqual([]);
    ready();
    const answer = await made;
    await vi.advanceTimersByTimeAsync(900_000);
    return { valise, client, answer, log };
  };

  it('a session begins after a slow onCreate and has not ended', async () => {
    const { valise, client, answer, log } = await slowly();
    const session = resultOf(answer)['session'] as Wire;
    expect((await client.use(session)).value).toBe(1);
    expect(log).toEqual([]);
    await valise.close();
  });

  it('a session that is revoked during a slow onCreate ends once, and no limit is reported', async () => {
    const { valise, answer, log } = await slowly((id, valise) => valise.sessions.revoke(id));
    expect(errorOf(answer)).toMatchObject({ code: -32603, data: { code: 'session-gone' } });
    expect(log).toEqual(['revoked']);
    await valise.close();
  });
});
