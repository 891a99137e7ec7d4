import { createValise, type Flow, type FlowMode, plainCodec } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  accept,
  call,
  echo,
  type FlowPeer,
  flowPeer,
  modernCall,
  name,
  ours,
  text,
  type Wire,
} from './flow-peer.ts';
import { MAJORS } from './majors.ts';

const work = async (_: unknown, flow: Flow) => {
  const made = await flow.once('make', () => 'a long thing that the server wants to remember');
  const { name: who } = await flow.ask('a', name);
  return text(`${who}: ${made}`);
};
const DONE = 'Ada: a long thing that the server wants to remember';

/** A store that forgets or changes what rounds keep. */
const keptIn = async (store: Store): Promise<string[]> => [...(await store.list('rounds/kept/')).keys];

afterEach(() => vi.useRealTimers());

describe.each(MAJORS)('[R-13] flow contexts on an SDK $major server', (major) => {
  const stage = async (mode: FlowMode | undefined, capabilities?: object) => {
    const store = memoryStore();
    const valise = createValise({ name: 'test', store, flows: { mode } });
    const peer = await flowPeer(major, work, { valise, ...(capabilities && { capabilities }) });
    return { store, valise, peer };
  };
  const finish = (peer: FlowPeer, { result }: Wire): Promise<Wire> =>
    peer.say(
      modernCall({}, { requestState: result.requestState, inputResponses: { a: accept({ name: 'Ada' }) } }),
    );

  it('mode stored sends only a reference to the context', async () => {
    const { store, peer } = await stage('stored');
    const first = await peer.say(modernCall());
    expect(first.result.requestState.length).toBeLessThan(320);
    expect(await keptIn(store)).toHaveLength(1);
    expect((await finish(peer, first)).result.content[0].text).toBe(DONE);
    await peer.close();
  });

  it('mode stored refuses an answer if the store has lost the context', async () => {
    const { store, peer } = await stage('stored');
    const first = await peer.say(modernCall());
    for (const key of await keptIn(store)) await store.delete(key);
    expect((await finish(peer, first)).error).toMatchObject({ code: -32602 });
    await peer.close();
  });

  it('mode dual keeps the context in both places, compares and counts, and prefers the store', async () => {
    const { store, valise, peer } = await stage('dual');
    expect((await finish(peer, await peer.say(modernCall()))).result.content[0].text).toBe(DONE);
    expect(valise.flows.counts()).toMatchObject({ same: 1, different: 0, missing: 0 });

    // What somebody else has written into the store counts for nothing.
    const second = await peer.say(modernCall());
    for (const key of await keptIn(store)) await store.put(key, { context: { n: 1, e: 1e12 } });
    expect((await finish(peer, second)).result.content[0].text).toBe(DONE);
    expect(valise.flows.counts()).toMatchObject({ same: 1, different: 0, missing: 1 });
    expect(peer.rejected).toMatchObject([{ what: 'a record in the store', reason: 'malformed' }]);

    const third = await peer.say(modernCall());
    for (const key of await keptIn(store)) await store.delete(key);
    expect((await finish(peer, third)).result.content[0].text).toBe(DONE);
    expect(valise.flows.counts()).toMatchObject({ same: 1, different: 0, missing: 2 });
    await peer.close();
  });

  it('mode dual uses the stored context if the one that traveled differs', async () => {
    const store = memoryStore();
    const valise = createValise({ name: 'test', store, flows: { mode: 'dual', codec: plainCodec() } });
    const peer = await flowPeer(major, work, { valise });
    const first = await peer.say(modernCall());
    const altered = first.result.requestState.replace('a long thing', 'another thing');
    const done = await finish(peer, { ...first, result: { requestState: altered } });
    expect(done.result.content[0].text).toBe(DONE);
    expect(valise.flows.counts()).toMatchObject({ same: 0, different: 1, missing: 0 });
    await peer.close();
  });

  it.each(['carried-first', 'dual'] as const)(
    'mode %s replaces a damaged context with the stored one, and counts it as different',
    async (mode) => {
      const { valise, peer } = await stage(mode, ours('state'));
      const damaged = [
        (state: string) => `${state.slice(0, -4)}AAAA`,
        () => 'AAAA',
        () => ({ an: 'object' }),
        () => null,
      ];
      for (const [at, damage] of damaged.entries()) {
        const asked = await peer.say(call());
        const answer = { ...echo(asked, accept({ name: 'Ada' })), state: damage(asked.state) };
        expect((await peer.say(answer)).result.content[0].text).toBe(DONE);
        expect(valise.flows.counts()).toMatchObject({ different: at + 1, refused: 0 });
      }
      expect(peer.rejected).toHaveLength(damaged.length);
      await peer.close();
    },
  );

  it.each(['stored', 'carried'] as const)('mode %s refuses a damaged context', async (mode) => {
    const { valise, peer } = await stage(mode, ours('state'));
    const asked = await peer.say(call());
    const answer = { ...echo(asked, accept({ name: 'Ada' })), state: `${asked.state.slice(0, -4)}AAAA` };
    expect((await peer.say(answer)).error).toMatchObject({ code: -32602 });
    expect(valise.flows.counts()).toMatchObject({ different: 0, refused: 1 });
    await peer.close();
  });

  it('mode carried-first refuses a genuine context that is expired or of another form', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { valise, peer } = await stage('carried-first', ours('state'));
    const [one, two] = [await peer.say(call({ id: 1 })), await peer.say(call({ id: 2 }))];
    const { requestState } = (await peer.say(modernCall())).result;
    for (const state of [requestState]) {
      const answer = { ...echo(one, accept({ name: 'Ada' })), state };
      expect((await peer.say(answer)).error).toMatchObject({ code: -32602 });
    }
    vi.setSystemTime(Date.now() + 661_000);
    expect((await peer.say(echo(two, accept({ name: 'Ada' })))).error).toMatchObject({ code: -32602 });
    expect(valise.flows.counts()).toMatchObject({ different: 0, answered: 0, refused: 2 });
    await peer.close();
  });

  it('mode carried-first uses the context that traveled', async () => {
    const { store, valise, peer } = await stage('carried-first');
    const asked = await peer.say(call());
    for (const key of await keptIn(store)) await store.delete(key);
    expect((await peer.say(echo(asked, accept({ name: 'Ada' })))).result.content[0].text).toBe(DONE);
    expect(valise.flows.counts()).toMatchObject({ asked: 1, answered: 1, notEchoed: 0, recalled: 0 });
    await peer.close();
  });

  it('[R-09] mode carried-first warns of a client that does not echo state, and serves it from the store', async () => {
    const warnings: string[] = [];
    const store = memoryStore();
    const valise = createValise({
      name: 'test',
      store,
      events: { warning: ({ what }) => warnings.push(what) },
    });
    const peer = await flowPeer(major, work, { valise, capabilities: ours('state') });
    const asked = await peer.say(call());
    expect(asked).toHaveProperty('state');
    const done = await peer.say({ jsonrpc: '2.0', id: asked.id as string, result: accept({ name: 'Ada' }) });
    expect(done.result.content[0].text).toBe(DONE);
    expect(valise.flows.counts()).toMatchObject({ notEchoed: 1, recalled: 1 });
    expect(warnings).toContain('A client announced that it echoes state, and does not.');
    await peer.close();
  });

  it('[R-09] [R-16] a client that does not echo state has as much time to answer as one that does', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { peer } = await stage('carried-first', ours('state'));
    const silent = async (seconds: number) => {
      const { id } = await peer.say(call());
      vi.setSystemTime(Date.now() + seconds * 1000);
      peer.tell({ jsonrpc: '2.0', id: id as string, result: accept({ name: 'Ada' }) });
    };
    await silent(658);
    expect((await peer.next()).result.content[0].text).toBe(DONE);
    await silent(661);
    await vi.waitFor(() => expect(peer.rejected).toMatchObject([{ reason: 'expired' }]));
    await peer.close();
  });

  it('[R-09] mode carried notices a client that does not echo state, and cannot serve it', async () => {
    const { valise, peer } = await stage('carried', ours('state'));
    const asked = await peer.say(call());
    peer.tell({ jsonrpc: '2.0', id: asked.id as string, result: accept({ name: 'Ada' }) });
    await vi.waitFor(() => expect(peer.rejected).toMatchObject([{ reason: 'expired' }]));
    expect(valise.flows.counts()).toMatchObject({ notEchoed: 1, recalled: 0, refused: 1 });
    await peer.close();
  });

  it('[R-09] a client that has not announced it receives no top-level state', async () => {
    const { peer } = await stage('carried-first', { elicitation: {} });
    const asked = await peer.say(call());
    expect(Object.keys(asked).sort()).toEqual(['id', 'jsonrpc', 'method', 'params']);
    await peer.close();
  });

  it('mode carried stores nothing but the record of a used context', async () => {
    const { store, peer } = await stage('carried');
    const first = await peer.say(modernCall());
    expect((await store.list('')).keys).toEqual([]);
    expect((await finish(peer, first)).result.content[0].text).toBe(DONE);
    await vi.waitFor(async () => expect((await store.list('rounds/turn/')).keys).toHaveLength(1));
    await peer.close();
  });

  it('the default mode is carried-first with a store and carried without one', async () => {
    const { store, peer } = await stage(undefined, ours('state'));
    await peer.say(call());
    expect(await keptIn(store)).toHaveLength(1);
    const alone = await flowPeer(major, work);
    expect((await finish(alone, await alone.say(modernCall()))).result.content[0].text).toBe(DONE);
    await Promise.all([peer.close(), alone.close()]);
  });

  it('the mode of one flow overrides the mode of the server', async () => {
    const store = memoryStore();
    const peer = await flowPeer(major, work, {
      options: { store, flows: { mode: 'carried' } },
      flow: { mode: 'stored' },
    });
    await peer.say(modernCall());
    expect(await keptIn(store)).toHaveLength(1);
    await peer.close();
  });

  it('ttl limits how long a round stays open, and asking again renews it', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const later = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1000);
    const ask = (peer: FlowPeer, { result }: Wire) =>
      peer.say(modernCall({}, { requestState: result.requestState }));

    const brief = await flowPeer(major, work, { flow: { ttl: 300 } });
    let round = await brief.say(modernCall());
    later(200);
    round = await ask(brief, round);
    expect(Object.keys(round.result.inputRequests)).toEqual(['a']);
    later(170);
    expect((await ask(brief, round)).error).toMatchObject({ code: -32602 });

    const renewed = await flowPeer(major, work, { flow: { ttl: 300, renew: '1h' } });
    round = await renewed.say(modernCall());
    for (let at = 0; at < 3500; at += 250) {
      later(250);
      round = await ask(renewed, round);
      expect(Object.keys(round.result.inputRequests)).toEqual(['a']);
    }
    expect((await finish(renewed, round)).result.content[0].text).toBe(DONE);
    later(130);
    expect((await ask(renewed, round)).result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('is not renewed any more') }],
    });

    const slow = await flowPeer(
      major,
      async (_, flow) => {
        await flow.ask('a', { ...name, ttl: '8h' });
        return text('approved');
      },
      { flow: { ttl: 300 } },
    );
    round = await slow.say(modernCall());
    later(7 * 3600);
    expect((await finish(slow, round)).result.content[0].text).toBe('approved');
    await Promise.all([brief.close(), renewed.close(), slow.close()]);
  });
});
