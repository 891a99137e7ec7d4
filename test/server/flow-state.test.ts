import { createValise, type JarOptions, type ServerValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
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

const SESSION = 'modelcontextprotocol.io/state/session';

/** Counts in the client's state, asks, and counts again. */
const counting = (valise: ServerValise) => async (_: unknown, flow: { ask: (...args: never) => unknown }) => {
  const { session } = valise.jar;
  session.set('n', Number(session.get('n') ?? 0) + 1);
  await (flow.ask as (key: string, question: object) => Promise<unknown>)('a', name);
  session.set('n', Number(session.get('n')) + 1);
  return text(String(session.get('n')));
};

describe.each(MAJORS)('other state that a flow sets on an SDK $major server', (major) => {
  const stage = async (capabilities: object, store?: ReturnType<typeof memoryStore>): Promise<FlowPeer> => {
    const valise: ServerValise = createValise({
      name: 'test',
      store,
      jar: { session: { n: { plain: true } } } as JarOptions,
    });
    return flowPeer(major, counting(valise) as never, { valise, capabilities });
  };

  it('jar state that a flow sets is sent after its last run only, to a client that carries it', async () => {
    const peer = await stage({ ...ours('dependent-shared'), state: {} });
    const _meta = { [SESSION]: { n: 5 } };
    const asked = await peer.say(call({}, { params: { name: 'work', arguments: {}, _meta } }));
    expect(JSON.stringify(asked)).not.toContain(SESSION);
    const { state } = asked.dependent_requests;
    const done = await peer.say(
      call(
        {},
        {
          params: { name: 'work', arguments: {}, _meta },
          dependent_responses: { state, responses: [{ result: accept({}) }] },
        },
      ),
    );
    expect(done.result).toMatchObject({ content: [{ text: '7' }], _meta: { [SESSION]: { n: 7 } } });
    await peer.close();
  });

  it('a flow sees the jar state that came with its call if the answer comes alone', async () => {
    const peer = await stage({ ...ours('state'), state: {} });
    const asked = await peer.say(
      call({}, { params: { name: 'work', arguments: {}, _meta: { [SESSION]: { n: 5 } } } }),
    );
    const done = await peer.say(echo(asked, accept({})));
    expect(done.result).toMatchObject({ content: [{ text: '7' }], _meta: { [SESSION]: { n: 7 } } });
    await peer.close();
  });

  it('jar state does not travel with the question if the flow did not set it', async () => {
    const jar: JarOptions = { session: { cart: { plain: true } } };
    const valise: ServerValise = createValise({ name: 'test', jar });
    const adding = async (_: unknown, flow: { ask: (key: string, question: object) => unknown }) => {
      const cart = valise.jar.session.get('cart') as string[];
      cart.push('milk');
      await flow.ask('a', name);
      return text(cart.join());
    };
    const peer = await flowPeer(major, adding as never, {
      valise,
      capabilities: { ...ours('state'), state: {} },
    });
    const _meta = { [SESSION]: { cart: ['tea'] } };
    const asked = await peer.say(call({}, { params: { name: 'work', arguments: {}, _meta } }));
    const done = await peer.say(echo(asked, accept({})));
    expect(done.result).toMatchObject(text('tea,milk'));
    await peer.close();
  });

  it('jar state that a flow sets is stored after its last run only', async () => {
    const peer = await stage(ours('state'), memoryStore());
    const play = async (): Promise<Wire> => peer.say(echo(await peer.say(call()), accept({})));
    expect((await play()).result.content[0].text).toBe('2');
    expect((await play()).result.content[0].text).toBe('4');
    await peer.close();
  });

  it('jar state that a flow sets is sent after its last run only on 2026-07-28 too', async () => {
    const peer = await stage({});
    const capabilities = { elicitation: {}, extensions: { 'dev.valise/state': {} } };
    const first = await peer.say(modernCall({}, {}, capabilities));
    expect(JSON.stringify(first.result._meta ?? {})).not.toContain('dev.valise/state');
    const { requestState } = first.result;
    const done = await peer.say(
      modernCall({}, { requestState, inputResponses: { a: accept({}) } }, capabilities),
    );
    expect(done.result).toMatchObject({
      content: [{ text: '2' }],
      _meta: { 'dev.valise/state': { session: { n: 2 } } },
    });
    await peer.close();
  });

  it.each(['sealed', 'stored'] as const)(
    'session state that a flow sets is saved after its last run only in a %s session',
    async (mode) => {
      const key = 'io.modelcontextprotocol/session';
      const valise = createValise({ name: 'test', store: memoryStore(), sessions: { mode } });
      const peer = await flowPeer(
        major,
        async (_, flow) => {
          const session = valise.session()!;
          session?.set('n', Number(session.get('n') ?? 0) + 1);
          await flow.ask('a', name);
          return text(String(session?.get('n')));
        },
        { valise, capabilities: ours('dependent-shared') },
      );
      const created = await peer.say({ jsonrpc: '2.0', id: 1, method: 'sessions/create' });
      let { sessionId, state } = created.result.session;
      for (const expected of ['1', '2']) {
        const params = () => ({ name: 'work', arguments: {}, _meta: { [key]: { sessionId, state } } });
        const asked = await peer.say(call({}, { params: params() }));
        const round = asked.dependent_requests;
        const dependent_responses = { state: round.state, responses: [{ result: accept({}) }] };
        const done = await peer.say(call({}, { params: params(), dependent_responses }));
        expect(done.result.content[0].text).toBe(expected);
        expect(done.result._meta[key].sessionId).toBe(sessionId);
        ({ sessionId, state = state } = done.result._meta[key]);
      }
      await peer.close();
    },
  );
});

describe.each(MAJORS)(
  'a flow on an SDK $major server that starts over because its session has changed',
  (major) => {
    /** Two calls in one session, each of which counts it up; the one that comes second to its end starts over. */
    const stage = async (store: ReturnType<typeof memoryStore> | undefined, changing: boolean) => {
      const effects: string[] = [];
      const ids = new Set<string>();
      let runs = 0;
      const valise: ServerValise = createValise({ name: 'test', store, sessions: {} });
      const peer = await flowPeer(
        major,
        async (_, flow) => {
          runs++;
          ids.add(flow.id);
          const session = valise.session()!;
          const n = Number(session.get('n') ?? 0);
          await flow.once('before', ({ idempotencyKey }) => void effects.push(idempotencyKey));
          const message = changing ? `Number ${n}?` : 'Sure?';
          const { name: answer } = await flow.ask('sure', { ...name, message });
          const charged = await flow.once('charge', ({ idempotencyKey }) => effects.push(idempotencyKey));
          session.set('n', n + 1);
          return text(`${n + 1} ${answer} ${charged}`);
        },
        { valise, capabilities: { elicitation: {} } },
      );
      peer.tell(call());
      peer.tell(call());
      const questions = [await peer.next(), await peer.next()];
      for (const [at, question] of questions.entries())
        peer.tell(echo(question, accept({ name: `user ${at}` })));
      return { peer, questions, effects, ids, runs: () => runs };
    };

    it.each([
      ['without a store', () => undefined],
      ['with a store', memoryStore],
    ])(
      'a flow that starts over is the same flow, and nothing is done or asked again (%s)',
      async (_, store) => {
        const { peer, effects, ids, runs } = await stage(store(), false);
        const done = [await peer.next(), await peer.next()];
        expect(done.map(({ result }) => result.content[0].text).sort()).toEqual(['1 user 0 3', '2 user 1 4']);
        expect(runs()).toBe(3);
        expect(ids.size).toBe(2);
        expect(effects).toHaveLength(4);
        expect(new Set(effects).size).toBe(4);
        await peer.close();
      },
    );

    it('a flow that starts over asks a question that has changed, and repeats no effect', async () => {
      const { peer, questions, effects, ids } = await stage(undefined, true);
      const messages = [await peer.next(), await peer.next()];
      const again = messages.find(({ method }) => method === 'elicitation/create') as Wire;
      expect(again.params.message).toBe('Number 1?');
      expect(questions.map(({ id }) => id)).not.toContain(again.id);
      const done = await peer.say(echo(again, accept({ name: 'user 2' })));
      expect(done.result.content[0].text).toMatch(/^2 user 2 [34]$/);
      expect(effects).toHaveLength(4);
      expect(ids.size).toBe(2);
      await peer.close();
    });
  },
);
