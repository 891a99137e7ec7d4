import { createValise } from 'mcp-valise/server';
import { memoryStore, openStore, type Store } from 'mcp-valise/store';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { noServices, startRedis } from '../services.ts';
import { because } from '../skip.ts';
import { call, flowPeer, modernCall, text } from './flow-peer.ts';
import { endServers, FORMS, call as httpCall, initialize, listen, post } from './http-stage.ts';
import { MAJORS } from './majors.ts';

afterEach(endServers);

/** A store that stops answering for some keys, or at all, without a word. */
function silencing() {
  const store = memoryStore();
  const silent: { keys: RegExp | undefined; calls: string[] } = { keys: undefined, calls: [] };
  const get = (_: Store, method: keyof Store) => {
    const own = (store[method] as ((...args: unknown[]) => unknown) | undefined)?.bind(store);
    return (...args: unknown[]) => {
      if (!silent.keys?.test(`${method} ${args[0]}`)) return own?.(...args);
      silent.calls.push(method);
      return new Promise(() => {});
    };
  };
  return { store: new Proxy(store, { get } as ProxyHandler<Store>), silent };
}

describe.each(MAJORS)('a store that is silent under an SDK $major server', (major) => {
  it('all operations of a call together wait 10 seconds for a silent store', async () => {
    const { store, silent } = silencing();
    const valise = createValise({
      name: 'test',
      store,
      sessions: { mode: 'stored' },
      events: { warning() {} },
    });
    const peer = await flowPeer(major, () => text('unused'), {
      valise,
      also(server) {
        server.registerTool('count', {}, (async () => {
          const session = valise.session();
          session?.set('n', Number(session.get('n') ?? 0) + 1);
          return text(String(session?.get('n')));
        }) as never);
      },
    });
    const { session } = (await peer.say({ ...modernCall(), method: 'dev.valise/sessions/create' })).result;
    const message = modernCall({}, { name: 'count' });
    const _meta = { ...message['params']._meta, 'dev.valise/session': session };
    const counting = () => ({ ...message, params: { ...message['params'], _meta } });

    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    // First the jar cannot be read, which the handler does without; then the session cannot be saved.
    silent.keys = /^get state\/|^put sessions\//;
    const answered = vi.fn();
    const answer = peer.say(counting());
    void answer.then(answered);
    await vi.advanceTimersByTimeAsync(9_990);
    expect(answered).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(20);
    expect((await answer).error).toMatchObject({ code: -32603, data: { 'dev.valise/outcome': 'not-done' } });
    expect(silent.calls).not.toContain('put');

    // What was sent to the store and not answered may have been done.
    silent.keys = /^put sessions\//;
    const second = peer.say(counting());
    await vi.advanceTimersByTimeAsync(10_010);
    expect((await second).error).toMatchObject({ data: { 'dev.valise/outcome': 'unknown' } });

    silent.keys = undefined;
    expect((await peer.say(counting())).result).toMatchObject(text('1'));
    await peer.close();
  });

  it('the next call waits for the store again', async () => {
    const { store, silent } = silencing();
    const valise = createValise({ name: 'test', store, events: { warning() {} } });
    const peer = await flowPeer(major, () => text('unused'), {
      valise,
      also(server) {
        server.registerTool('jar', {}, (async () => {
          valise.jar.session.set('n', 1);
          return text('kept');
        }) as never);
      },
    });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    silent.keys = /./;
    const jar = () => call({}, { params: { name: 'jar', arguments: {} } });
    const first = peer.say(jar());
    await vi.advanceTimersByTimeAsync(10_010);
    expect((await first).error).toMatchObject({ code: -32603 });
    silent.keys = undefined;
    expect((await peer.say(jar())).result).toMatchObject(text('kept'));
    await peer.close();
  });
});

describe.skipIf(noServices)('a Redis that is paused', because('needs Redis'), () => {
  it('a paused Redis delays a call no longer than one operation, although the call has several', {
    timeout: 60_000,
  }, async () => {
    const redis = await startRedis();
    const store = await openStore(redis.url);
    const valise = createValise({
      name: 'test',
      store,
      sessions: { mode: 'stored' },
      events: { warning() {} },
    });
    onTestFinished(async () => {
      process.kill(redis.pid, 'SIGCONT');
      await store.close();
      await redis.stop();
    });
    const url = await listen(FORMS['v2, web standard']!(valise));
    const session = { 'mcp-session-id': (await post(url, initialize({}))).headers.get('mcp-session-id')! };
    const count = () => post(url, httpCall('count'), session);
    expect((await count()).message.result).toMatchObject(text('1'));

    process.kill(redis.pid, 'SIGSTOP');
    const timed = async (work: Promise<unknown>) => {
      const begun = performance.now();
      const result = await work.catch((error: unknown) => error);
      return { result, ms: performance.now() - begun };
    };
    const [operation, called] = await Promise.all([timed(store.get('any')), timed(count())]);
    expect(operation.result).toMatchObject({ code: 'store-unavailable' });
    expect(called.result).toMatchObject({ message: { error: { code: -32603 } } });
    expect(called.ms).toBeLessThan(operation.ms * 1.5);

    process.kill(redis.pid, 'SIGCONT');
    await expect
      .poll(async () => (await count()).message.result, { timeout: 20_000 })
      .toMatchObject(text('2'));
  });
});
