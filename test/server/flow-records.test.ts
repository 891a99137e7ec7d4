import { createValise, type Flow } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { accept, flowPeer, modernCall, name, text, type Wire } from './flow-peer.ts';
import { call, endServers, FORMS, HEADERS, initialize, listen, post } from './http-stage.ts';
import { MAJORS } from './majors.ts';

afterEach(endServers);

const question = { ...name, refusal: 'value' } as const;
const keysOf = async (store: Store, prefix: string): Promise<string[]> => [
  ...(await store.list(prefix)).keys,
];
/** The key that is there after `work` and was not before. */
const added = async (store: Store, prefix: string, work: () => Promise<unknown>): Promise<string> => {
  const before = new Set(await keysOf(store, prefix));
  await work();
  return (await keysOf(store, prefix)).find((key) => !before.has(key)) as string;
};

describe.each(MAJORS)('an attacker who can write to the store of an SDK $major server', (major) => {
  const stage = async () => {
    const store = memoryStore();
    const valise = createValise({ name: 'test', store, flows: { mode: 'stored' } });
    const effects: string[] = [];
    const peer = await flowPeer(
      major,
      async (_: unknown, flow: Flow) => {
        const { action } = await flow.ask('sure', question);
        await flow.ask('anything else', question);
        if (action !== 'accept') return text('Kept.');
        await flow.once('delete', () => void effects.push('deleted'));
        return text('Deleted.');
      },
      { valise },
    );
    /** Makes a call and answers its first question. */
    const begin = async (answer: object): Promise<Wire> => {
      const { requestState } = (await peer.say(modernCall())).result;
      return peer.say(modernCall({}, { requestState, inputResponses: { sure: answer } }));
    };
    const finish = ({ result }: Wire): Promise<Wire> =>
      peer.say(
        modernCall(
          {},
          { requestState: result.requestState, inputResponses: { 'anything else': { action: 'decline' } } },
        ),
      );
    return { store, peer, effects, begin, finish };
  };

  it('an attacker cannot turn a decline into an acceptance with the record of another flow', async () => {
    const { store, peer, effects, begin, finish } = await stage();
    const accepted = await added(store, 'rounds/kept/', () => begin(accept({ name: 'yes' })));
    let round: Wire | undefined;
    const declined = await added(store, 'rounds/kept/', async () => {
      round = await begin({ action: 'decline' });
    });
    const own = (await store.get(declined))!.value;
    await store.put(declined, (await store.get(accepted))!.value);
    expect((await finish(round!)).error).toMatchObject({ code: -32602 });
    expect(effects).toEqual([]);
    expect(peer.rejected).toContainEqual(
      expect.objectContaining({ what: 'a record in the store', reason: 'wrong-binding' }),
    );
    await store.put(declined, own);
    expect((await finish(round!)).result).toMatchObject(text('Kept.'));
    await peer.close();
  });

  it('an attacker cannot turn a decline into an acceptance with an older record of the same flow', async () => {
    const { store, peer, effects, begin, finish } = await stage();
    const before = new Set(await keysOf(store, 'rounds/kept/'));
    const { requestState } = (await peer.say(modernCall())).result;
    const [key] = (await keysOf(store, 'rounds/kept/')).filter((each) => !before.has(each));
    const older = (await store.get(key!))!.value;
    const round = await peer.say(
      modernCall({}, { requestState, inputResponses: { sure: { action: 'decline' } } }),
    );
    await store.put(key!, older);
    expect((await finish(round)).error).toMatchObject({ code: -32602 });
    expect(effects).toEqual([]);
    await begin({ action: 'decline' });
    await peer.close();
  });

  it('an attacker can neither read nor write the records of a flow', async () => {
    const { store, peer, effects, begin, finish } = await stage();
    let round: Wire | undefined;
    const key = await added(store, 'rounds/kept/', async () => {
      round = await begin({ action: 'decline' });
    });
    expect(JSON.stringify((await store.get(key))!.value)).not.toContain('decline');
    const flow = key.split('/').at(-1) as string;
    const j = [['sure', 'a', '', 1, { action: 'accept' }]];
    await store.put(key, { context: { f: flow, n: 2, t: 1, e: 1e12, j, q: [] }, mode: 'stored' });
    expect((await finish(round!)).error).toMatchObject({ code: -32602 });
    expect(effects).toEqual([]);
    await peer.close();
  });

  it('an attacker cannot make an effect look done', async () => {
    const { store, peer, effects, begin, finish } = await stage();
    const done = await added(store, 'rounds/once/', async () => finish(await begin(accept({ name: 'yes' }))));
    expect(effects).toEqual(['deleted']);
    const value = (await store.get(done))!.value;
    // Every other effect that is claimed gets the mark of this one.
    const { put } = store;
    store.put = async (key, own, options) => {
      if (key.startsWith('rounds/once/') && key !== done) await put.call(store, key, value);
      return put.call(store, key, own, options);
    };
    const failed = await finish(await begin(accept({ name: 'yes' })));
    expect(failed.result).toMatchObject({ isError: true });
    expect(failed.result.content[0].text).toContain('nobody knows whether it took place');
    await peer.close();
  });
});

it('a forged outcome in the store is not delivered, and does not block the real one', async () => {
  const store = memoryStore();
  const url = await listen(FORMS['v2, web standard']!(createValise({ name: 'test', store })));
  const made = await post(url, initialize({ elicitation: {} }));
  const headers = { 'mcp-session-id': made.headers.get('mcp-session-id') as string };
  const ask = async () => {
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...HEADERS, 'mcp-protocol-version': '2025-11-25', ...headers },
      body: JSON.stringify(call('ask')),
    });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const event = (await reader.read()).value as string;
    const { id } = JSON.parse(/^data: (.+)$/m.exec(event)?.[1] as string) as Wire;
    const answer = (who: string) => post(url, { jsonrpc: '2.0', id, result: accept({ name: who }) }, headers);
    return { answer, next: async () => (await reader.read()).value };
  };
  const one = await ask();
  const mail = await added(store, 'rounds/mail/', () => one.answer('Ada'));
  const two = await ask();
  const theirs = (await store.get(mail))!.value;
  const { put } = store;
  let key = '';
  // Just before the second outcome is written, the first one is put in its place.
  store.put = async (name, value, options) => {
    if (name.startsWith('rounds/mail/') && name !== mail && key === '') {
      key = name;
      await put.call(store, name, theirs);
    }
    return put.call(store, name, value, options);
  };
  await two.answer('Bob');
  expect(key).not.toBe('');
  expect(await two.next()).toContain('hello Bob');
});
