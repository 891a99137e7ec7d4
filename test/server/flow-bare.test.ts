import { createValise } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { accept, call, choice, echo, flowPeer, modernCall, ours, text, type Wire } from './flow-peer.ts';
import { MAJORS } from './majors.ts';

const ask = (message: string) => ({ message, requestedSchema: choice('how', 'Fixed', 'Duplicate') });

describe.each(MAJORS)('a bare request with a state on an SDK $major server', (major) => {
  const stage = async (capabilities: object = ours()) => {
    const valise = createValise({ name: 'test' });
    let handled = 0;
    valise.onResponse('first', ({ state, result, call: made }) => {
      const { workItemId } = state as { workItemId: number };
      const how = (result?.content as { how: string } | undefined)?.how;
      expect(made.method).toBe('tools/call');
      if (how !== 'Duplicate') return text(`#${workItemId} ${how}`);
      return valise.request('elicitation/create', ask('Really?'), {
        key: 'second',
        state: { 'Microsoft.VSTS.Common.ResolvedReason': how },
      });
    });
    valise.onResponse('again', () => valise.request('elicitation/create', ask('Again?'), { key: 'again' }));
    valise.onResponse('second', ({ state, error }) => {
      if (error) throw new Error(`no: ${error.message}`);
      return text(JSON.stringify(state));
    });
    const peer = await flowPeer(major, async () => text('unused'), {
      valise,
      capabilities,
      also(server) {
        server.registerTool('bare', {}, (async () => {
          handled++;
          return valise.request('elicitation/create', ask('How?'), {
            key: 'first',
            state: { workItemId: 7 },
          });
        }) as never);
        server.registerTool('endless', {}, (async () =>
          valise.request('elicitation/create', ask('Again?'), { key: 'again' })) as never);
        server.registerTool('ping', {}, (async () =>
          text(JSON.stringify(await valise.request('ping')))) as never);
      },
    });
    return { valise, peer, handled: () => handled };
  };
  const bare = { params: { name: 'bare', arguments: {} } };

  it('[R-01] goes on in a continuation, not in the handler', async () => {
    const { peer, handled } = await stage();
    const first = await peer.say(call({}, bare));
    expect(first).toMatchObject({
      method: 'elicitation/create',
      params: ask('How?'),
      state: expect.any(String),
    });
    const second = await peer.say(echo(first, accept({ how: 'Duplicate' })));
    expect(second).toMatchObject({ method: 'elicitation/create', params: { message: 'Really?' } });
    const done = await peer.say(echo(second, accept({ how: 'Fixed' })));
    expect(done.result.content[0].text).toBe('{"Microsoft.VSTS.Common.ResolvedReason":"Duplicate"}');
    expect(handled()).toBe(1);
    await peer.close();
  });

  it('may ask a hundred times in one call', async () => {
    const { peer } = await stage();
    let asked = 0;
    let message = await peer.say(call({}, { params: { name: 'endless', arguments: {} } }));
    for (; message.method; asked++) message = await peer.say(echo(message, accept({ how: 'Fixed' })));
    expect(asked).toBe(100);
    expect(message.result).toMatchObject({ isError: true });
    expect(message.result.content[0].text).toMatch(/^The call may not ask "again": it has had 100 answers/);
    await peer.close();
  });

  it('goes on also on 2026-07-28, and in the draft forms', async () => {
    const modern = await stage();
    const asked = await modern.peer.say(modernCall({}, { name: 'bare' }));
    expect(asked.result.inputRequests.first).toMatchObject({ method: 'elicitation/create' });
    const done = await modern.peer.say(
      modernCall(
        {},
        {
          name: 'bare',
          requestState: asked.result.requestState,
          inputResponses: { first: accept({ how: 'Fixed' }) },
        },
      ),
    );
    expect(done.result).toMatchObject({ resultType: 'complete', content: [{ text: '#7 Fixed' }] });

    for (const carrier of ['dependent-shared', 'dependent-each'] as const) {
      const { peer } = await stage(ours(carrier));
      const round = (await peer.say(call({}, bare))).dependent_requests;
      const answer = { result: accept({ how: 'Fixed' }) };
      const dependent_responses =
        carrier === 'dependent-shared'
          ? { state: round.state, responses: [answer] }
          : { responses: [{ state: round.requests[0].state, ...answer }] };
      const over = await peer.say(call({}, { ...bare, dependent_responses }));
      expect(over.result.content[0].text).toBe('#7 Fixed');
      await peer.close();
    }
    await modern.peer.close();
  });

  it('goes on in memory for a stock client', async () => {
    const { peer } = await stage({ elicitation: {} });
    const first = await peer.say(call({}, bare));
    expect(first).not.toHaveProperty('state');
    const done = await peer.say(echo(first, accept({ how: 'Fixed' })));
    expect(done.result.content[0].text).toBe('#7 Fixed');
    await peer.close();
  });

  it('[R-02] hears of errors too, and its own errors reach the client', async () => {
    const { peer } = await stage();
    const first = await peer.say(call({}, bare));
    const second = await peer.say(echo(first, accept({ how: 'Duplicate' })));
    const done = await peer.say({
      jsonrpc: '2.0',
      id: second.id as string,
      state: second.state,
      error: { code: -1, message: 'the user is gone' },
    });
    expect(done.result).toMatchObject({ isError: true, content: [{ text: 'no: the user is gone' }] });
    await peer.close();
  });

  it('needs no state and no continuation where the connection stays', async () => {
    const { peer } = await stage();
    const ping = await peer.say(call({}, { params: { name: 'ping', arguments: {} } }));
    expect(ping).toMatchObject({ method: 'ping' });
    expect(ping).not.toHaveProperty('state');
    expect((await peer.say(echo(ping, {}))).result.content[0].text).toBe('{}');
    await peer.close();
  });

  it('is taken back where its call is cancelled', async () => {
    const { peer } = await stage({ elicitation: {} });
    const request = call({}, bare);
    const asked = await peer.say(request);
    const params = { requestId: request.id };
    expect(await peer.say({ jsonrpc: '2.0', method: 'notifications/cancelled', params })).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: asked.id },
    });
    await peer.close();
  });

  it('says what is missing', async () => {
    const { valise, peer } = await stage();
    await expect(valise.request('ping')).rejects.toThrow('outside of a handler');
    expect(() => valise.onResponse('first', () => ({}))).toThrow('There are two continuations for "first".');
    await peer.close();
  });
});

describe.each(MAJORS)('a bare request in a call that starts over, on an SDK $major server', (major) => {
  /** Two calls in one session, each of which counts it up; the one that comes second to its end starts over. */
  const stage = async (tool: 'waits' | 'goes-on', capabilities: object) => {
    const valise = createValise({ name: 'test', sessions: {} });
    let runs = 0;
    const count = async (answers: unknown[]) => {
      runs++;
      const session = valise.session();
      const n = Number(session?.get('n') ?? 0);
      // Both have read it before one of them is done.
      await new Promise((resolve) => setImmediate(resolve));
      session?.set('n', n + 1);
      return text(`${n + 1} ${JSON.stringify(answers)}`);
    };
    const how = (message: string) => valise.request('elicitation/create', ask(message));
    valise.onResponse('how', ({ result }) => count([result?.['content']]));
    const peer = await flowPeer(major, async () => text('unused'), {
      valise,
      capabilities,
      also(server) {
        server.registerTool('waits', {}, (async () => {
          const session = valise.session();
          session?.get('n');
          return count([(await how('How?'))['content'], (await how('How?'))['content']]);
        }) as never);
        server.registerTool('goes-on', {}, (async () =>
          valise.request('elicitation/create', ask('How?'), { key: 'how', state: 1 })) as never);
      },
    });
    const made = { params: { name: tool, arguments: {} } };
    peer.tell(call({}, made));
    peer.tell(call({}, made));
    return { peer, runs: () => runs };
  };
  const both = async ({ next }: { next(): Promise<Wire> }) => [await next(), await next()];
  const texts = (done: Wire[]) => done.map(({ result }) => result?.content[0].text).sort();

  it('waits for no answer again that it was given', async () => {
    const { peer, runs } = await stage('waits', { elicitation: {} });
    for (const how of ['Fixed', 'Duplicate'])
      for (const question of await both(peer)) peer.tell(echo(question, accept({ how })));
    const given = '[{"how":"Fixed"},{"how":"Duplicate"}]';
    expect(texts(await both(peer))).toEqual([`1 ${given}`, `2 ${given}`]);
    expect(runs()).toBe(3);
    await peer.close();
  });

  it.each([
    ['in memory', { elicitation: {} }],
    ['with its state', ours('state')],
  ])('goes on from the answer that it was given %s', async (_, capabilities) => {
    const { peer, runs } = await stage('goes-on', capabilities);
    for (const question of await both(peer)) peer.tell(echo(question, accept({ how: 'Fixed' })));
    expect(texts(await both(peer))).toEqual(['1 [{"how":"Fixed"}]', '2 [{"how":"Fixed"}]']);
    expect(runs()).toBe(3);
    await peer.close();
  });
});
