import type { Json } from 'mcp-valise/seal';
import { createValise, type Flow } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { describe, expect, it, vi } from 'vitest';
import { sha256 } from '../../src/core/sha256.ts';
import { signalIn } from '../../src/server/flows/flow.ts';
import { accept, type FlowPeer, flowPeer, modernCall, name, text, type Wire } from './flow-peer.ts';
import { MAJORS } from './majors.ts';

type Effect = Parameters<Parameters<Flow['once']>[1]>[0];
type OnceOptions = NonNullable<Parameters<Flow['once']>[2]>;

describe.each(MAJORS)('an effect that is done once, with a store, on an SDK $major server', (major) => {
  const stage = async (
    effect: (effect: Effect) => unknown,
    {
      once,
      store = memoryStore(),
      singleUse,
    }: { once?: OnceOptions; store?: Store; singleUse?: boolean } = {},
  ) => {
    let id = '';
    const valise = createValise({ name: 'test', store, flows: { singleUse } });
    const peer = await flowPeer(
      major,
      async (_, flow: Flow) => {
        id = flow.id;
        await flow.ask('a', name);
        return text(JSON.stringify(await flow.once('x', effect, once)));
      },
      { valise },
    );
    const first = await peer.say(modernCall());
    const mark = `rounds/once/${sha256(JSON.stringify([id, 'x']))}`;
    return { peer, store, first, mark };
  };
  const go = (peer: FlowPeer, { result }: Wire): Promise<Wire> =>
    peer.say(modernCall({}, { requestState: result.requestState, inputResponses: { a: accept({}) } }));

  it('an effect is claimed before it runs and completed afterwards', async () => {
    const seen: unknown[] = [];
    const stores = memoryStore();
    const { peer, store, first, mark } = await stage(
      async () => {
        seen.push((await stores.get(mark))?.value);
        return 'made';
      },
      { store: stores },
    );
    expect((await go(peer, first)).result.content[0].text).toBe('"made"');
    const done = (await store.get(mark))?.value;
    expect(seen).toEqual([expect.stringMatching(/^v1\./)]);
    expect(done).toMatch(/^v1\./);
    expect(done).not.toBe(seen[0]);
    await peer.close();
  });

  it('an effect is not done again if another run of the same round has completed it', async () => {
    const effect = vi.fn(() => 'before');
    const { peer, first } = await stage(effect, { singleUse: false });
    for (let run = 0; run < 2; run++) expect((await go(peer, first)).result.content[0].text).toBe('"before"');
    expect(effect).toHaveBeenCalledTimes(1);
    await peer.close();
  });

  it('an interrupted effect is detected, and fails by default', async () => {
    const store = memoryStore();
    const effect = vi.fn(async () => (await store.get(mark))?.value);
    const { peer, first, mark } = await stage(effect, { store, singleUse: false });
    const { result } = await go(peer, first);
    // As if the process had died before the effect was marked as done.
    await store.put(mark, JSON.parse(result.content[0].text));
    const failed = await go(peer, first);
    expect(failed.result).toMatchObject({
      isError: true,
      content: [
        {
          text: `The effect "x" was cut off in the middle; nobody knows whether it took place.`,
        },
      ],
    });
    expect(effect).toHaveBeenCalledTimes(1);
    await peer.close();
  });

  it('an interrupted effect is retried with the same key if the author allows it', async () => {
    const effects: Effect[] = [];
    const store = memoryStore();
    const { peer, first, mark } = await stage(
      async (effect) => {
        effects.push(effect);
        return (await store.get(mark))?.value;
      },
      { once: { cutOff: 'retry' }, store, singleUse: false },
    );
    const { result } = await go(peer, first);
    await store.put(mark, JSON.parse(result.content[0].text));
    await go(peer, first);
    const idempotencyKey = mark.slice('rounds/once/'.length);
    expect(effects).toEqual([
      { attempt: 1, idempotencyKey },
      { attempt: 2, idempotencyKey },
    ]);
    await peer.close();
  });

  it('an effect completes once if two runs reach it at the same time', async () => {
    let completed = 0;
    const effect = vi.fn(async () => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      return ++completed;
    });
    const { peer, first } = await stage(effect, { singleUse: false });
    const [one, two] = await Promise.all([go(peer, first), go(peer, first)]);
    expect([one, two].map(({ result }) => result.content[0].text)).toEqual(['1', '1']);
    expect(effect).toHaveBeenCalledTimes(1);
    await peer.close();
  });

  it('a run that has lost its claim uses the outcome of the other run', async () => {
    const store = memoryStore();
    let theirs: Json | undefined;
    const { peer, first, mark } = await stage(
      async () => {
        if (theirs === undefined) return 'theirs';
        // As if this process had slept, and another had taken over and finished.
        await store.put(mark, theirs);
        return 'mine';
      },
      { store, singleUse: false },
    );
    await go(peer, first);
    theirs = (await store.get(mark))?.value;
    await store.delete(mark);
    expect((await go(peer, first)).result.content[0].text).toBe('"theirs"');
    await peer.close();
  });

  it('an effect that fails counts as not done', async () => {
    let fail = true;
    const { peer, store, first, mark } = await stage(
      () => {
        if (fail) throw new Error('no connection');
        return 'made';
      },
      { singleUse: false },
    );
    expect((await go(peer, first)).result).toMatchObject({
      isError: true,
      content: [{ text: 'no connection' }],
    });
    expect(await store.get(mark)).toBeUndefined();
    fail = false;
    expect((await go(peer, first)).result.content[0].text).toBe('"made"');
    await peer.close();
  });

  it.each(['answers', 'asks again', 'fails'])(
    'an effect stays done if its call is canceled, and the round is open once the handler %s',
    async (end) => {
      const effect = vi.fn(() => 'made');
      let cancelled = false;
      const under = vi.fn();
      const peer = await flowPeer(
        major,
        async (_, flow: Flow) => {
          await flow.ask('a', name);
          const made = await flow.once('x', effect);
          if (!cancelled) {
            under();
            await new Promise((resolve) => signalIn(flow.extra)?.addEventListener('abort', resolve));
            cancelled = true;
            if (end === 'fails') throw new Error('nobody wants it');
            if (end === 'asks again') await flow.ask('b', name);
          }
          return text(made);
        },
        { options: { store: memoryStore() } },
      );
      const { result } = await peer.say(modernCall());
      const answered = { requestState: result.requestState, inputResponses: { a: accept({}) } };
      const given = modernCall({}, answered);
      peer.tell(given);
      await vi.waitFor(() => expect(under).toHaveBeenCalled());
      const params = { requestId: given.id, _meta: given['params']._meta };
      peer.tell({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
      const again = modernCall({}, answered);
      expect(await peer.say(again)).toMatchObject({
        id: again.id,
        result: { content: [{ text: 'made' }] },
      });
      expect(effect).toHaveBeenCalledTimes(1);
      expect((await peer.say(modernCall({}, answered))).result).toMatchObject(text('made'));
      const other = { ...answered, inputResponses: { a: accept({ name: 'another' }) } };
      expect((await peer.say(modernCall({}, other))).error).toMatchObject({ code: -32602 });
      await peer.close();
    },
  );

  it('an effect counts as interrupted if the store fails before its completion is recorded', async () => {
    const real = memoryStore();
    let broken = false;
    const store: Store = {
      get: (key) => real.get(key),
      delete: (key, options) => real.delete(key, options),
      list: (prefix, options) => real.list(prefix, options),
      lease: (key, ttl) => real.lease(key, ttl),
      close: () => real.close(),
      put: (key, value, options) =>
        broken && key.startsWith('rounds/once/')
          ? Promise.reject(new Error('store gone'))
          : real.put(key, value, options),
    };
    const { peer, first } = await stage(
      () => {
        broken = true;
        return 'made';
      },
      { store, singleUse: false },
    );
    expect((await go(peer, first)).result).toMatchObject({
      isError: true,
      content: [{ text: 'store gone' }],
    });
    broken = false;
    expect((await go(peer, first)).result.content[0].text).toMatch(
      /^The effect "x" was cut off in the middle/,
    );
    await peer.close();
  });
});

describe.each(MAJORS)('an effect that is done once, without a store, on an SDK $major server', (major) => {
  const stage = async () => {
    const effects: string[] = [];
    const done = (what: string) => async () => {
      effects.push(what);
      return what;
    };
    const valise = createValise({ name: 'test' });
    const peer = await flowPeer(
      major,
      async (_, flow: Flow) => {
        await flow.ask('a', name);
        await flow.once('x', done('x'));
        await flow.ask('b', name);
        return text(await flow.once('y', done('y')));
      },
      { valise },
    );
    const answer = (key: string, { result }: Wire) =>
      peer.say(modernCall({}, { requestState: result.requestState, inputResponses: { [key]: accept({}) } }));
    return { effects, peer, answer };
  };

  it('an effect is remembered from the next question on without a store', async () => {
    const { effects, peer, answer } = await stage();
    await answer('b', await answer('a', await peer.say(modernCall())));
    expect(effects).toEqual(['x', 'y']);
    await peer.close();
  });

  it('only effects after the last question are done again if a round is answered again without a store', async () => {
    const { effects, peer, answer } = await stage();
    const first = await peer.say(modernCall());
    const second = await answer('a', first);
    for (let count = 0; count < 2; count++)
      expect((await answer('b', second)).result.content[0].text).toBe('y');
    expect(effects).toEqual(['x', 'y', 'y']);
    await answer('a', first);
    expect(effects).toEqual(['x', 'y', 'y', 'x']);
    await peer.close();
  });
});
