import { generateKey, type Json, parseKeys } from 'mcp-valise/seal';
import { createValise, type FlowCodec, plainCodec, type ServerEvents } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  accept,
  call,
  choice,
  flowPeer,
  modernCall,
  ours,
  type PeerOptions,
  text,
  type Wire,
} from './flow-peer.ts';
import { MAJORS } from './majors.ts';

const REFUSED = {
  code: -32602,
  message: 'Invalid or expired requestState',
  data: { reason: 'invalid_request_state' },
};
const how = { message: 'How?', schema: choice('how', 'Fixed') };
const inputResponses = { a: accept({ how: 'Fixed' }) };

afterEach(() => vi.useRealTimers());

describe.each(MAJORS)('[R-10] refused flow contexts on an SDK $major server', (major) => {
  const stage = async (options: PeerOptions = {}) => {
    const runs: unknown[] = [];
    const peer = await flowPeer(
      major,
      async (args, flow) => {
        runs.push(args);
        const { how: answer } = await flow.ask('a', how);
        return text(`secret ${answer}`);
      },
      {
        ...options,
        also(server, valise) {
          server.registerTool(
            'other',
            {},
            valise.flow(async (flow) => {
              runs.push('other');
              await flow.ask('a', how);
              return text('other');
            }) as never,
          );
        },
      },
    );
    const first = await peer.say(modernCall({ id: 1 }));
    runs.length = 0;
    return { peer, runs, requestState: first.result.requestState as string };
  };

  const refused = async (
    make: (requestState: string) => Wire,
    reason: string | RegExp,
    options: PeerOptions = {},
  ) => {
    const { peer, runs, requestState } = await stage(options);
    const response = await peer.say(make(requestState));
    expect(response).toEqual({ jsonrpc: '2.0', id: response.id, error: REFUSED });
    expect(runs).toEqual([]);
    const [event] = peer.rejected as unknown as ServerEvents['rejected'][];
    expect(event).toMatchObject({ family: 'flows', reason: expect.stringMatching(reason) });
    expect(JSON.stringify(peer.rejected)).not.toContain(requestState.slice(12, 40));
    expect(peer.valise.flows.counts().refused).toBe(1);
    await peer.close();
  };
  const retry = (requestState: unknown, args: object = { id: 1 }, more: object = {}): Wire =>
    modernCall(args, { requestState, inputResponses, ...more });

  it('an altered flow context is refused', () =>
    refused((state) => retry(`${state.slice(0, -4)}AAAA`), 'tampered'));
  it('a flow context that is altered at its start is refused', () =>
    refused((state) => retry(`w${state.slice(1)}`), 'malformed'));
  it('a truncated flow context is refused', () =>
    refused((state) => retry(state.slice(0, -10)), /tampered|malformed/));
  it('text that is not a flow context is refused', () => refused(() => retry('AAAA'), 'malformed'));
  it('a flow context that is not text is refused', async () => {
    const { peer, runs } = await stage();
    expect((await peer.say(retry({ a: 1 }))).error).toEqual(REFUSED);
    expect(runs).toEqual([]);
    await peer.close();
  });
  it('a flow context is refused if the arguments of the call have changed', () =>
    refused((state) => retry(state, { id: 2 }), 'wrong-binding'));
  it('a flow context is refused in a call of another tool', () =>
    refused((state) => retry(state, { id: 1 }, { name: 'other' }), 'wrong-binding'));
  it('a flow context of another server is refused', async () => {
    const { requestState } = await stage({ options: { name: 'shop' } });
    await refused(() => retry(requestState), /unknown-key|wrong-audience/);
  });
  it('a flow context that was sealed with a retired key is refused', async () => {
    const keys = parseKeys(generateKey());
    const { requestState } = await stage({ options: { keys } });
    const options = { keys: generateKey(), retiredKeys: keys.kids };
    await refused(() => retry(requestState), 'unknown-key', { options });
  });
  it('a flow context of another server with the same keys is refused', async () => {
    const keys = generateKey();
    const { requestState } = await stage({ options: { keys, name: 'shop' } });
    await refused(() => retry(requestState), 'wrong-audience', { options: { keys } });
  });
  it('a flow context is refused if the answers are malformed', () =>
    refused((state) => retry(state, { id: 1 }, { inputResponses: [1] }), 'malformed'));

  it('a flow context is refused if another principal sends it', async () => {
    const valise = createValise({ name: 'test' });
    const ada = await stage({ valise, authInfo: { clientId: 'c', extra: { iss: 'i', sub: 'ada' } } });
    const bob = await stage({ valise, authInfo: { clientId: 'c', extra: { iss: 'i', sub: 'bob' } } });
    const response = await bob.peer.say(retry(ada.requestState));
    expect(response.error).toEqual(REFUSED);
    expect(bob.runs).toEqual([]);
    expect(bob.peer.rejected.at(-1)).toMatchObject({ reason: 'wrong-subject' });
    // And nobody is not anybody.
    const nobody = await stage({ valise });
    expect((await nobody.peer.say(retry(ada.requestState))).error).toEqual(REFUSED);
    expect((await ada.peer.say(retry(ada.requestState))).result.content[0].text).toBe('secret Fixed');
  });

  it('[R-16] a flow context is refused one minute after it expired, which allows for clock skew', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { peer, runs, requestState } = await stage();
    vi.setSystemTime(Date.now() + 658_000);
    expect((await peer.say(retry(requestState))).result.content[0].text).toBe('secret Fixed');
    runs.length = 0;
    vi.setSystemTime(Date.now() + 3_000);
    expect((await peer.say(retry(requestState))).error).toEqual(REFUSED);
    expect(runs).toEqual([]);
    expect(peer.rejected).toMatchObject([{ reason: 'expired' }]);
    await peer.close();
  });

  const declined = { inputResponses: { a: { action: 'decline' } } };

  it('[R-16] a flow context is refused with a second, different answer if there is a store', async () => {
    const { peer, runs, requestState } = await stage({ options: { store: memoryStore() } });
    expect((await peer.say(retry(requestState))).result.content[0].text).toBe('secret Fixed');
    expect(runs).toHaveLength(1);
    expect((await peer.say(retry(requestState, { id: 1 }, declined))).error).toEqual(REFUSED);
    expect((await peer.say(retry(requestState, { id: 1 }, { inputResponses: {} }))).error).toEqual(REFUSED);
    expect(runs).toHaveLength(1);
    expect(peer.rejected).toMatchObject([{ reason: 'replayed' }, { reason: 'replayed' }]);
    // The same answer gets what it got before, and nothing runs.
    expect((await peer.say(retry(requestState))).result.content[0].text).toBe('secret Fixed');
    expect(runs).toHaveLength(1);
    await peer.close();
  });

  it('[R-16] a flow context that several answers use at once continues once, with the first answer, if there is a store', async () => {
    const { peer, runs, requestState } = await stage({ options: { store: memoryStore() } });
    const answers = [retry(requestState), retry(requestState), retry(requestState, { id: 1 }, declined)];
    const told = await Promise.all(answers.map((answer) => peer.say(answer)));
    expect(told.filter(({ result }) => result)).toHaveLength(2);
    expect(told.filter(({ error }) => error?.code === -32602)).toHaveLength(1);
    expect(runs).toHaveLength(1);
    await peer.close();
  });

  it('a bad flow context is refused in the draft form too', async () => {
    const { peer, runs } = await stage({ capabilities: ours('dependent-shared') });
    const asked = await peer.say(call({ id: 1 }));
    const { state } = asked.dependent_requests;
    const responses = [{ result: accept({ how: 'Fixed' }) }];
    runs.length = 0;
    for (const bad of [`${state}A`, 'AAAA', { an: 'object' }, null]) {
      const response = await peer.say(call({ id: 1 }, { dependent_responses: { state: bad, responses } }));
      expect(response.error).toEqual(REFUSED);
    }
    const elsewhere = await peer.say(call({ id: 2 }, { dependent_responses: { state, responses } }));
    expect(elsewhere.error).toEqual(REFUSED);
    const odd = await peer.say(call({ id: 1 }, { dependent_responses: 'nonsense' }));
    expect(odd.error).toEqual(REFUSED);
    expect(runs).toEqual([]);
    const done = await peer.say(call({ id: 1 }, { dependent_responses: { state, responses } }));
    expect(done.result.content[0].text).toBe('secret Fixed');
    await peer.close();
  });

  it.each([7, 'the call', `long ${'x'.repeat(100)}`])(
    '[R-10] a call ends with the same error, under its own id, if an answer brings a bad flow context (%s)',
    async (id) => {
      const { peer, runs } = await stage();
      const asked = await peer.say({ ...call({ id: 1 }), id });
      runs.length = 0;
      const answer = { jsonrpc: '2.0', id: asked.id as string, result: accept({ how: 'Fixed' }) };
      for (const state of [`${asked.state}A`, 'AAAA', { an: 'object' }, null, ''])
        expect(await peer.say({ ...answer, state })).toEqual({ jsonrpc: '2.0', id, error: REFUSED });
      expect(peer.rejected).toHaveLength(5);
      expect(runs).toEqual([]);
      expect((await peer.say({ ...answer, state: asked.state })).result.content[0].text).toBe('secret Fixed');
      await peer.close();
    },
  );

  it('a bad flow context in an answer that names no call is only reported to the author', async () => {
    const { peer, runs } = await stage();
    const asked = await peer.say({ ...call({ id: 1 }), id: 'x'.repeat(300) });
    runs.length = 0;
    const answer = { jsonrpc: '2.0', result: accept({ how: 'Fixed' }) };
    const ids = [asked.id as string, `${asked.id}.AAAA`, `${asked.id}.bnVsbA`, 'another', 5];
    for (const id of ids) peer.tell({ ...answer, id, state: 'AAAA' });
    await vi.waitFor(() => expect(peer.rejected).toHaveLength(ids.length));
    expect(runs).toEqual([]);
    const done = await peer.say({ ...answer, id: asked.id as string, state: asked.state });
    expect(done.result.content[0].text).toBe('secret Fixed');
    await peer.close();
  });

  it('a flow context that was sealed for one purpose is refused for another', async () => {
    const { peer, runs, requestState } = await stage();
    const asked = await peer.say(call({ id: 1 }));
    runs.length = 0;
    expect((await peer.say(retry(asked.state))).error).toEqual(REFUSED);
    peer.tell({
      jsonrpc: '2.0',
      id: asked.id as string,
      state: requestState,
      result: accept({ how: 'Fixed' }),
    });
    await vi.waitFor(() =>
      expect(peer.rejected.at(-1)).toMatchObject({ reason: expect.stringMatching(/^wrong-/) }),
    );
    expect(runs).toEqual([]);
    await peer.close();
  });

  it('[R-11] plainCodec() sends the flow context unsealed, and a warning says so', async () => {
    const warnings: string[] = [];
    const valise = createValise({
      name: 'test',
      flows: { codec: plainCodec() },
      events: { warning: ({ what }) => warnings.push(what) },
    });
    const { peer, requestState } = await stage({ valise });
    await vi.waitFor(() =>
      expect(warnings).toContain('The context of flows travels unsealed: clients can read and change it.'),
    );
    expect(requestState).toMatch(/^plain\.\{/);
    expect((await peer.say(retry(requestState))).result.content[0].text).toBe('secret Fixed');
    expect((await peer.say(retry(requestState, { id: 2 }))).error).toEqual(REFUSED);
    expect((await peer.say(retry('plain.{'))).error).toEqual(REFUSED);
    await peer.close();
  });

  it('[R-05] [R-11] a flow context is an object on the wire if the codec makes one', async () => {
    const valise = createValise({ name: 'test', flows: { codec: plainCodec({ form: 'object' }) } });
    const { peer, requestState } = await stage({ valise, capabilities: ours('state') });
    const asked = await peer.say(call({ id: 1 }));
    expect(asked.state).toMatchObject({ plain: { value: { n: 1 } } });
    const answer = { jsonrpc: '2.0', id: asked.id as string, result: accept({ how: 'Fixed' }) };
    for (const state of [
      { plain: {} },
      { other: 1 },
      null,
      'AAAA',
      { ...asked.state, plain: { ...asked.state.plain, for: [] } },
    ])
      expect((await peer.say({ ...answer, state })).error).toEqual(REFUSED);
    expect((await peer.say({ ...answer, state: asked.state })).result.content[0].text).toBe('secret Fixed');
    // The core's `requestState` is text.
    expect(JSON.parse(requestState)).toMatchObject({ plain: { value: { n: 1 } } });
    expect((await peer.say(retry(requestState))).result.content[0].text).toBe('secret Fixed');
    expect((await peer.say(retry(requestState, { id: 2 }))).error).toEqual(REFUSED);
    expect((await peer.say(retry('{"plain":'))).error).toEqual(REFUSED);
    await peer.close();
  });

  it.each(['dependent-shared', 'dependent-each'] as const)(
    '[R-05] a flow context may be an object in dependent_requests (%s)',
    async (carrier) => {
      const valise = createValise({ name: 'test', flows: { codec: plainCodec({ form: 'object' }) } });
      const { peer } = await stage({ valise, capabilities: ours(carrier) });
      const { dependent_requests: asked } = await peer.say(call({ id: 1 }));
      const [{ state: own }] = asked.requests;
      expect(asked.state ?? own).toMatchObject({ plain: { value: { n: 1 } } });
      const result = accept({ how: 'Fixed' });
      const dependent_responses = asked.state
        ? { state: asked.state, responses: [{ result }] }
        : { responses: [{ state: own, result }] };
      const done = await peer.say(call({ id: 1 }, { dependent_responses }));
      expect(done.result.content[0].text).toBe('secret Fixed');
      await peer.close();
    },
  );

  it('[R-11] a flow context is refused if a custom codec throws any error', async () => {
    const plain = plainCodec();
    const codec = {
      seal: plain.seal,
      recognizes: (state: string) => state.startsWith('plain.'),
      open(state: string, options: never) {
        if (!state.includes('secret-mac')) return plain.open(state, options);
        throw new TypeError('bad mac');
      },
    };
    const valise = createValise({ name: 'test', flows: { codec: codec as never } });
    const { peer } = await stage({ valise, capabilities: ours('state') });
    const asked = await peer.say(call({ id: 1 }));
    const answer = { jsonrpc: '2.0', id: asked.id as string, result: accept({ how: 'Fixed' }) };
    for (const state of ['plain.secret-mac', { an: 'object' }])
      expect((await peer.say({ ...answer, state })).error).toEqual(REFUSED);
    await peer.close();
  });

  it('[R-11] a custom codec may encode the flow context, and a context that it cannot open is refused', async () => {
    const codec: FlowCodec = {
      seal: (value, { purpose }) =>
        `mine.${Buffer.from(JSON.stringify([purpose, value])).toString('base64')}`,
      open(text, { purpose }) {
        const [made, value] = JSON.parse(Buffer.from(String(text).slice(5), 'base64').toString()) as [
          string,
          Json,
        ];
        if (made !== purpose) throw new Error('for something else');
        return value;
      },
      recognizes: (text) => String(text).startsWith('mine.'),
    };
    const { peer, runs, requestState } = await stage({ options: { flows: { codec } } });
    expect(requestState).toMatch(/^mine\.[\w+/]+=*$/);
    for (const other of [`mine.${requestState.slice(9)}`, 'mine.', 'yours.x'])
      expect((await peer.say(retry(other))).error, other).toEqual(REFUSED);
    expect(runs).toEqual([]);
    expect((await peer.say(retry(requestState))).result.content[0].text).toBe('secret Fixed');
    await peer.close();
  });
});
