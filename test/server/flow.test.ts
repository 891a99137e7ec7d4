import { describe, expect, it } from 'vitest';
import { accept, call, choice, echo, flowPeer, modernCall, ours, text, type Work } from './flow-peer.ts';
import { MAJORS } from './majors.ts';

const resolution = { message: 'How?', schema: choice('resolution', 'Fixed', 'Duplicate') };
const duplicate = {
  message: 'Of which?',
  schema: { type: 'object', properties: { of: { type: 'number' } }, required: ['of'] },
} as const;

describe.each(MAJORS)('a flow on an SDK $major server', (major) => {
  const resolve = () => {
    let runs = 0;
    return {
      runs: () => runs,
      work: (async ({ id }, flow) => {
        runs++;
        const answer = await flow.ask('resolution', resolution);
        if (answer.resolution !== 'Duplicate') return text(`#${id} ${answer.resolution}`);
        const { of } = await flow.ask('of', duplicate);
        return text(`#${id} ${answer.resolution} of ${of}`);
      }) satisfies Work,
    };
  };

  it('[R-14] a flow asks one round after another on 2026-07-28, and keeps nothing in between', async () => {
    const peer = await flowPeer(major, resolve().work);
    const first = await peer.say(modernCall({ id: 7 }));
    expect(first.result).toMatchObject({
      resultType: 'input_required',
      inputRequests: {
        resolution: {
          method: 'elicitation/create',
          params: { message: 'How?', requestedSchema: resolution.schema },
        },
      },
      requestState: expect.stringMatching(/^v1\./),
    });
    const second = await peer.say(
      modernCall(
        { id: 7 },
        {
          requestState: first.result.requestState,
          inputResponses: { resolution: accept({ resolution: 'Duplicate' }) },
        },
      ),
    );
    expect(Object.keys(second.result.inputRequests)).toEqual(['of']);
    const last = await peer.say(
      modernCall(
        { id: 7 },
        { requestState: second.result.requestState, inputResponses: { of: accept({ of: 3 }) } },
      ),
    );
    expect(last.result.content).toEqual([{ type: 'text', text: '#7 Duplicate of 3' }]);
    await peer.close();
  });

  it('a flow uses valid answers that come with the call on 2026-07-28', async () => {
    const { work, runs } = resolve();
    const peer = await flowPeer(major, work);
    const along = (inputResponses: object) => peer.say(modernCall({ id: 7 }, { inputResponses }));
    const fixed = accept({ resolution: 'Fixed' });
    const done = await along({ resolution: fixed, more: accept({ x: 1 }) });
    expect(done.result.content[0].text).toBe('#7 Fixed');
    expect(runs()).toBe(1);
    for (const wrong of [
      { resolution: {} },
      { resolution: { action: 'accept', content: 5 } },
      { other: fixed },
    ]) {
      const asked = await along(wrong);
      expect(Object.keys(asked.result.inputRequests)).toEqual(['resolution']);
    }
    const next = await along({ resolution: accept({ resolution: 'Duplicate' }) });
    expect(Object.keys(next.result.inputRequests)).toEqual(['of']);
    await peer.close();
  });

  it('[R-01] a flow puts a top-level state on its own request for a client that carries it', async () => {
    const peer = await flowPeer(major, resolve().work);
    const asked = await peer.say(call({ id: 7 }));
    expect(asked).toMatchObject({
      jsonrpc: '2.0',
      method: 'elicitation/create',
      params: { message: 'How?', requestedSchema: resolution.schema },
      state: expect.stringMatching(/^v1\./),
    });
    const again = await peer.say(echo(asked, accept({ resolution: 'Duplicate' })));
    expect(again).toMatchObject({ method: 'elicitation/create', params: { message: 'Of which?' } });
    expect(again.id).not.toBe(asked.id);
    const done = await peer.say(echo(again, accept({ of: 3 })));
    expect(done.result.content[0].text).toBe('#7 Duplicate of 3');
    await peer.close();
  });

  it('[R-01] a flow puts a top-level state on sampling and roots requests too', async () => {
    const peer = await flowPeer(major, async (_, flow) => {
      const { content } = await flow.sample('say', { messages: [], maxTokens: 10 });
      const [root] = await flow.roots();
      return text(`${(content as { text: string }).text} ${root?.uri}`);
    });
    const sampling = await peer.say(call());
    const roots = await peer.say(
      echo(sampling, { role: 'assistant', model: 'm', content: { type: 'text', text: 'hi' } }),
    );
    for (const [asked, method] of [
      [sampling, 'sampling/createMessage'],
      [roots, 'roots/list'],
    ] as const)
      expect(asked).toMatchObject({ method, state: expect.stringMatching(/^v1\./) });
    const done = await peer.say(echo(roots, { roots: [{ uri: 'file:///x' }] }));
    expect(done.result.content[0].text).toBe('hi file:///x');
    await peer.close();
  });

  it('[R-06] a flow sends one shared state in the draft form', async () => {
    const peer = await flowPeer(major, resolve().work, { capabilities: ours('dependent-shared') });
    const request = call({ id: 7 });
    const asked = await peer.say(request);
    expect(asked).toEqual({
      jsonrpc: '2.0',
      id: request.id,
      dependent_requests: {
        state: expect.stringMatching(/^v1\./),
        requests: [
          { method: 'elicitation/create', params: { message: 'How?', requestedSchema: resolution.schema } },
        ],
      },
    });
    const { state } = asked.dependent_requests;
    const done = await peer.say(
      call(
        { id: 7 },
        { dependent_responses: { state, responses: [{ result: accept({ resolution: 'Fixed' }) }] } },
      ),
    );
    expect(done.result.content[0].text).toBe('#7 Fixed');
    await peer.close();
  });

  it('[R-07] a flow sends one state for each request in the other draft form', async () => {
    const peer = await flowPeer(
      major,
      async (_, flow) => {
        const [a, b] = await Promise.all([flow.ask('a', resolution), flow.ask('b', duplicate)]);
        return text(`${a.resolution} ${b.of}`);
      },
      { capabilities: ours('dependent-each') },
    );
    const asked = await peer.say(call());
    const { requests, ...none } = asked.dependent_requests;
    expect(none).toEqual({});
    expect(requests).toHaveLength(2);
    const states = requests.map(({ state }: { state: string }) => state);
    expect(states[0]).not.toBe(states[1]);
    const responses = [
      { state: states[0], result: accept({ resolution: 'Fixed' }) },
      { state: states[1], result: accept({ of: 3 }) },
    ];
    const swapped = await peer.say(
      call({}, { dependent_responses: { responses: [responses[0], { ...responses[1], state: states[0] }] } }),
    );
    expect(swapped.error).toMatchObject({ code: -32602 });
    const done = await peer.say(call({}, { dependent_responses: { responses } }));
    expect(done.result.content[0].text).toBe('Fixed 3');
    await peer.close();
  });

  it('a flow waits in memory for a stock client on the same connection', async () => {
    const { work, runs } = resolve();
    const peer = await flowPeer(major, work, { capabilities: { elicitation: {} } });
    const asked = await peer.say(call({ id: 7 }));
    expect(asked).toMatchObject({ method: 'elicitation/create' });
    expect(asked).not.toHaveProperty('state');
    const again = await peer.say(echo(asked, accept({ resolution: 'Duplicate' })));
    const done = await peer.say(echo(again, accept({ of: 3 })));
    expect(done.result.content[0].text).toBe('#7 Duplicate of 3');
    expect(runs()).toBe(1);
    await peer.close();
  });
});
