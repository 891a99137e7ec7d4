import { createValise, type Flow } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { cuttable, HIDDEN, PLACE } from './cuttable-store.ts';
import {
  accept,
  call,
  type FlowPeer,
  flowPeer,
  modernCall,
  name,
  ours,
  text,
  type Wire,
} from './flow-peer.ts';
import { MAJORS } from './majors.ts';

const ASKABLE = { elicitation: {}, extensions: { 'dev.valise/sessions': {} } };

describe.each(MAJORS)('a store that fails under an SDK $major server', (major) => {
  const stage = async () => {
    const { store, cut } = cuttable();
    const warnings: string[] = [];
    const valise = createValise({
      name: 'test',
      store,
      flows: { mode: 'stored' },
      sessions: { mode: 'stored' },
      events: { warning: ({ what }) => warnings.push(what) },
    });
    let effects = 0;
    const peer = await flowPeer(
      major,
      async (_, flow) => {
        await flow.ask('who', name);
        return text(String(await flow.once('charge', () => ++effects)));
      },
      {
        valise,
        capabilities: ours('dependent-shared'),
        also(server) {
          server.registerTool('note', {}, (async () => {
            valise.session()?.set('n', 1);
            return text('noted');
          }) as never);
          server.registerTool('jar', {}, (async () => {
            valise.jar.session.set('n', Math.random());
            return text('kept');
          }) as never);
          server.registerTool(
            'jar-flow',
            {},
            valise.flow(async (flow: Flow) => {
              const { name: who } = await flow.ask('who', name);
              const session = valise.session();
              const n = Number(session?.get('n') ?? 0) + 1;
              session?.set('n', n);
              valise.jar.session.set('who', who ?? null);
              return text(`${who} is kept, in run ${n} of the session`);
            }) as never,
          );
          server.registerTool('jar-or-not', {}, (async () => {
            try {
              valise.jar.session;
            } catch {
              return { ...text('own words'), isError: true };
            }
          }) as never);
        },
      },
    );
    const create = { ...modernCall({}, {}, ASKABLE), method: 'dev.valise/sessions/create' };
    const session = (await peer.say(create)).result.session;
    const within = (message: Wire): Wire => ({
      ...message,
      params: { ...message.params, _meta: { ...message.params._meta, 'dev.valise/session': session } },
    });
    return { peer, cut, warnings, create, within, effects: () => effects };
  };

  const hears = async (peer: FlowPeer, message: Wire, warnings: string[]): Promise<void> => {
    warnings.length = 0;
    const { error } = await peer.say(message);
    expect(error).toMatchObject(HIDDEN);
    expect(JSON.stringify(error)).not.toContain('10.0.0.7');
    expect(warnings).toEqual([expect.stringContaining(`${PLACE} failed: connect ECONNREFUSED.`)]);
  };

  it.each([
    ['a session is listed', 'dev.valise/sessions/list', {}],
    ['a session listens', 'dev.valise/listen', {}],
    ['a resource is subscribed to', 'resources/subscribe', { uri: 'notes://a' }],
    ['a tool is called', 'tools/call', { name: 'note', arguments: {} }],
  ])('only the author learns why the store failed when %s', async (_, method, params) => {
    const { peer, cut, warnings, within } = await stage();
    cut.off = true;
    await hears(peer, within({ ...modernCall({}, params, ASKABLE), method }), warnings);
    await peer.close();
  });

  it('a listener whose missed notifications cannot be read gets one error, and only the author learns why', async () => {
    const { peer, cut, warnings, within } = await stage();
    Object.assign(cut, { off: true, only: /\/log\// });
    await hears(peer, within({ ...modernCall({}, {}, ASKABLE), method: 'dev.valise/listen' }), warnings);
    const { id } = await peer.say({ ...modernCall(), id: 'next', method: 'dev.valise/sessions/list' });
    expect(id).toBe('next');
    await peer.close();
  });

  it('only the author learns why the store failed when a session is created', async () => {
    const { peer, cut, warnings, create } = await stage();
    cut.off = true;
    await hears(peer, create, warnings);
    await peer.close();
  });

  it.each([
    ['opened', false],
    ['closed', true],
  ])(
    'only the author learns why the store failed when the jar of a client that carries no state is %s',
    async (_, writes) => {
      const { peer, cut, warnings } = await stage();
      Object.assign(cut, { off: true, only: /^state\//, writes });
      await hears(peer, call({}, { params: { name: 'jar', arguments: {} } }), warnings);
      await peer.close();
    },
  );

  const jarFlow = async ({ peer, within }: Awaited<ReturnType<typeof stage>>) => {
    const { requestState } = (await peer.say(within(modernCall({}, { name: 'jar-flow' })))).result;
    const inputResponses = { who: accept({ name: 'Ada' }) };
    return within(modernCall({}, { name: 'jar-flow', requestState, inputResponses }));
  };

  it('an answer that failed because the jar could not be opened succeeds when it is sent again', async () => {
    const staged = await stage();
    const { peer, cut, warnings } = staged;
    const answer = await jarFlow(staged);
    Object.assign(cut, { off: true, only: /^state\// });
    await hears(peer, answer, warnings);
    cut.off = false;
    expect((await peer.say(answer)).result).toMatchObject(text('Ada is kept, in run 1 of the session'));
    await peer.close();
  });

  it('the outcome is unknown if the session was saved and the jar was not, and the same answer changes nothing twice', async () => {
    const staged = await stage();
    const { peer, cut, within } = staged;
    const answer = await jarFlow(staged);
    Object.assign(cut, { off: true, only: /^state\//, writes: true });
    const { error } = await peer.say(answer);
    expect(error).toMatchObject({ code: -32603, data: { 'dev.valise/outcome': 'unknown' } });
    expect(JSON.stringify(error)).not.toContain('10.0.0.7');
    cut.off = false;
    expect((await peer.say(answer)).error).toEqual(error);
    const next = await jarFlow({ ...staged, within });
    expect((await peer.say(next)).result).toMatchObject(text('Ada is kept, in run 2 of the session'));
    await peer.close();
  });

  it('a handler may continue without its jar if the store fails', async () => {
    const { peer, cut, warnings } = await stage();
    Object.assign(cut, { off: true, only: /^state\// });
    warnings.length = 0;
    const { result } = await peer.say(call({}, { params: { name: 'jar-or-not', arguments: {} } }));
    expect(result).toMatchObject(text('own words'));
    expect(warnings).toEqual([]);
    await peer.close();
  });

  it.each(['work'])(
    'only the author learns why the store failed when a question of %s is asked',
    async (tool) => {
      const { peer, cut, warnings } = await stage();
      Object.assign(cut, { off: true, only: /^rounds\// });
      await hears(peer, modernCall({}, { name: tool }), warnings);
      await hears(peer, call({}, { params: { name: tool, arguments: {} } }), warnings);
      await peer.close();
    },
  );

  it('an effect that failed with the store is done once when the same answer is sent again', async () => {
    const { peer, cut, warnings, effects } = await stage();
    const { requestState } = (await peer.say(modernCall())).result;
    const answer = modernCall({}, { requestState, inputResponses: { who: accept({}) } });
    Object.assign(cut, { off: true, only: /^rounds\/once/ });
    await hears(peer, answer, warnings);
    cut.off = false;
    expect((await peer.say(answer)).result).toMatchObject(text('1'));
    expect(effects()).toBe(1);
    await peer.close();
  });
});
