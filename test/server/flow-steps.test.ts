import { FlowError } from 'mcp-valise/server';
import { describe, expect, it, vi } from 'vitest';
import {
  accept,
  call,
  choice,
  echo,
  type FlowPeer,
  flowPeer,
  modernCall,
  name,
  ours,
  text,
  type Wire,
  type Work,
} from './flow-peer.ts';
import { MAJORS } from './majors.ts';

const how = { message: 'How?', schema: choice('how', 'Fixed', 'Duplicate') };

/** Goes through a call on 2026-07-28: `answer` gives the answers to each round, until there are no more questions. */
async function modern(
  peer: FlowPeer,
  answer: (questions: Record<string, Wire>, round: number) => object,
  args: object = {},
): Promise<Wire> {
  let response = await peer.say(modernCall(args));
  for (let round = 1; response.result?.resultType === 'input_required'; round++) {
    const { requestState, inputRequests = {} } = response.result;
    response = await peer.say(
      modernCall(args, { requestState, inputResponses: answer(inputRequests, round) }),
    );
  }
  return response;
}

const said = (response: Wire): string => response.result.content[0].text;

describe.each(MAJORS)('the steps of a flow on an SDK $major server', (major) => {
  const play = async (
    work: Work,
    answer: Parameters<typeof modern>[1] = () => ({}),
    options: Parameters<typeof flowPeer>[2] = {},
  ): Promise<Wire> => {
    const peer = await flowPeer(major, work, options);
    const response = await modern(peer, answer);
    await peer.close();
    return response;
  };

  it('a flow asks several questions at once in one round', async () => {
    const rounds: string[][] = [];
    const response = await play(
      async (_, flow) => {
        const [a, b] = await Promise.all([flow.ask('a', how), flow.ask('b', name)]);
        const { roots } = { roots: await flow.roots() };
        return text(`${a.how} ${b.name} ${roots[0]?.uri}`);
      },
      (questions) => {
        rounds.push(Object.keys(questions));
        return {
          a: accept({ how: 'Fixed' }),
          b: accept({ name: 'Ada' }),
          roots: { roots: [{ uri: 'file:///x' }] },
        };
      },
    );
    expect(said(response)).toBe('Fixed Ada file:///x');
    expect(rounds).toEqual([['a', 'b'], ['roots']]);
  });

  it('a flow asks parallel questions together after an earlier answer', async () => {
    const rounds: string[][] = [];
    const response = await play(
      async (_, flow) => {
        const branch = async (key: string) => {
          await flow.ask(`${key}1`, name);
          await flow.ask(`${key}2`, name);
        };
        await Promise.all([branch('a'), branch('b')]);
        return text('done');
      },
      (questions) => {
        rounds.push(Object.keys(questions));
        return Object.fromEntries(Object.keys(questions).map((key) => [key, accept({})]));
      },
    );
    expect(said(response)).toBe('done');
    expect(rounds).toEqual([
      ['a1', 'b1'],
      ['a2', 'b2'],
    ]);
  });

  it('a flow asks again for questions that were not answered', async () => {
    const rounds: string[][] = [];
    const response = await play(
      async (_, flow) => {
        const [a, b] = await Promise.all([flow.ask('a', name), flow.ask('b', name)]);
        return text(`${a.name}${b.name}`);
      },
      (questions, round) => {
        rounds.push(Object.keys(questions));
        return round === 1
          ? { a: accept({ name: 'A' }) }
          : round === 2
            ? { b: 'nonsense' }
            : { b: accept({ name: 'B' }) };
      },
    ).catch((error: Error) => error);
    expect(rounds.slice(0, 2)).toEqual([['a', 'b'], ['b']]);
    // An answer that is not even an object makes the whole retry unreadable.
    expect(response).toMatchObject({ error: { code: -32602 } });
  });

  it('a flow can sample the model', async () => {
    const response = await play(
      async (_, flow) => {
        const { content } = await flow.sample('say', { messages: [], maxTokens: 10 });
        return text(JSON.stringify(content));
      },
      (questions) => {
        expect(questions.say).toEqual({
          method: 'sampling/createMessage',
          params: { messages: [], maxTokens: 10 },
        });
        return { say: { role: 'assistant', content: { type: 'text', text: 'hello' }, model: 'm' } };
      },
    );
    expect(said(response)).toBe('{"type":"text","text":"hello"}');
  });

  it('a flow does an effect once, and later runs return its value', async () => {
    const effect = vi.fn(() => ({ at: new Date(0).toISOString() }));
    const nothing = vi.fn();
    const seen: unknown[] = [];
    const response = await play(
      async (_, flow) => {
        const made = await flow.once('make', effect);
        const none = await flow.once('none', nothing);
        seen.push([made, none]);
        await flow.ask('a', name);
        return text('done');
      },
      () => ({ a: accept({}) }),
    );
    expect(said(response)).toBe('done');
    expect(effect).toHaveBeenCalledTimes(1);
    expect(nothing).toHaveBeenCalledTimes(1);
    // The first round sees what later ones will see.
    expect(seen).toEqual([
      [{ at: '1970-01-01T00:00:00.000Z' }, undefined],
      [{ at: '1970-01-01T00:00:00.000Z' }, undefined],
    ]);
  });

  it('an effect receives a key that is the same on every attempt and differs between steps', async () => {
    const keys: string[] = [];
    let fail = true;
    const peer = await flowPeer(major, async (_, flow) => {
      await flow.ask('a', name);
      await flow.once('x', ({ idempotencyKey }) => {
        keys.push(idempotencyKey);
        if (fail) throw new Error('not now');
      });
      await flow.once('y', ({ idempotencyKey }) => void keys.push(idempotencyKey));
      return text('done');
    });
    const first = await peer.say(modernCall());
    const retry = () =>
      peer.say(
        modernCall({}, { requestState: first.result.requestState, inputResponses: { a: accept({}) } }),
      );
    expect((await retry()).result).toMatchObject({ isError: true });
    fail = false;
    expect(said(await retry())).toBe('done');
    expect(keys[0]).toBe(keys[1]);
    expect(keys[1]).not.toBe(keys[2]);
    expect(keys[0]).toHaveLength(43);
    await peer.close();
  });

  it('a round waits for a running effect before it is sent', async () => {
    let finish: (value: string) => void = () => {};
    const effect = vi.fn(() => new Promise<string>((resolve) => (finish = resolve)));
    const peer = await flowPeer(major, async (_, flow) => {
      const [, made] = await Promise.all([flow.ask('a', name), flow.once('slow', effect)]);
      return text(made);
    });
    const asked = peer.say(modernCall());
    await vi.waitFor(() => expect(effect).toHaveBeenCalled());
    finish('made');
    const { requestState } = (await asked).result;
    expect(said(await peer.say(modernCall({}, { requestState, inputResponses: { a: accept({}) } })))).toBe(
      'made',
    );
    expect(effect).toHaveBeenCalledTimes(1);
    await peer.close();
  });

  it('a flow tells the client that it is still waiting until somebody else has acted', async () => {
    let approved: string | undefined;
    const rounds: string[][] = [];
    const response = await play(
      async (_, flow) => text(await flow.until('approval', () => approved, { every: 0.001, hold: 0.002 })),
      (questions, round) => {
        rounds.push(Object.keys(questions));
        if (round === 3) approved = 'by Ada';
        return {};
      },
      { flow: { renew: '8h' } },
    );
    expect(said(response)).toBe('by Ada');
    expect(rounds).toEqual([[], [], []]);
  });

  it('a flow reports its progress once, and only new progress', async () => {
    const peer = await flowPeer(major, async (_, flow) => {
      await flow.progress(1, 3, 'asking');
      await flow.ask('a', name);
      await flow.progress(2, 3);
      return text('done');
    });
    const first = modernCall();
    first.params._meta.progressToken = 'p';
    expect(await peer.say(first)).toMatchObject({
      method: 'notifications/progress',
      params: { progressToken: 'p', progress: 1, total: 3, message: 'asking' },
    });
    const { requestState } = (await peer.next()).result;
    const second = modernCall({}, { requestState, inputResponses: { a: accept({}) } });
    second.params._meta.progressToken = 'p';
    expect(await peer.say(second)).toMatchObject({ params: { progressToken: 'p', progress: 2 } });
    expect(said(await peer.next())).toBe('done');
    await peer.close();
  });

  describe('refusals by the user', () => {
    const refuse = (action: string) => () => ({ a: { action } });

    it.each([
      ['decline', 'ask-declined', 'The user declined to answer "a".'],
      ['cancel', 'ask-cancelled', 'The user closed the question "a" without an answer.'],
    ])('the answer %s is an error by default', async (action, code, message) => {
      let caught: unknown;
      const response = await play(async (_, flow) => {
        try {
          await flow.ask('a', how);
          return text('no');
        } catch (error) {
          caught = error;
          throw error;
        }
      }, refuse(action));
      expect(caught).toBeInstanceOf(FlowError);
      expect(caught).toMatchObject({ code, key: 'a' });
      expect(response.result).toMatchObject({ isError: true, content: [{ text: message }] });
    });

    it.each(['decline', 'cancel'])('the answer %s is a value if the author asks for it', async (action) => {
      const response = await play(async (_, flow) => {
        const reaction = await flow.ask('a', { ...how, refusal: 'value' });
        return text(reaction.action === 'accept' ? reaction.content.how : `the user did ${reaction.action}`);
      }, refuse(action));
      expect(said(response)).toBe(`the user did ${action}`);
    });

    it('an acceptance is a value too with refusal: value', async () => {
      const response = await play(
        async (_, flow) => {
          const reaction = await flow.ask('a', { ...how, refusal: 'value' });
          return text(reaction.action === 'accept' ? reaction.content.how : 'no');
        },
        () => ({ a: accept({ how: 'Fixed' }) }),
      );
      expect(said(response)).toBe('Fixed');
    });
  });

  it('a flow refuses an answer that does not fit the form', async () => {
    const response = await play(
      async (_, flow) => text((await flow.ask('a', how)).how),
      () => ({ a: accept({ how: 'Somehow' }) }),
    );
    expect(response.result).toMatchObject({
      isError: true,
      content: [
        {
          text: 'The answer to "a" does not fit its schema: how should be one of "Fixed", "Duplicate". Call again and answer what is asked.',
        },
      ],
    });
  });

  it('a flow reports an error that the client answered with', async () => {
    const peer = await flowPeer(major, async (_, flow) => {
      try {
        return text(String(await flow.sample('s', { messages: [], maxTokens: 1 })));
      } catch (error) {
        return text((error as FlowError).message);
      }
    });
    const asked = await peer.say(call());
    const done = await peer.say({
      jsonrpc: '2.0',
      id: asked.id as string,
      state: asked.state,
      error: { code: -1, message: 'no model' },
    });
    expect(said(done)).toBe('The client answered the question "s" with error -1: no model.');
    await peer.close();
  });

  it('a flow sends the user to a page for data that must not pass through the client', async () => {
    const response = await play(
      async (_, flow) => {
        await flow.ask('pay', { message: 'Pay here', url: 'https://pay.example/1' });
        return text('paid');
      },
      ({ pay }) => {
        expect(pay).toMatchObject({
          method: 'elicitation/create',
          params: { mode: 'url', message: 'Pay here', url: 'https://pay.example/1' },
        });
        return { pay: { action: 'accept' } };
      },
      {},
    );
    expect(response.error).toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { elicitation: { url: {} } } },
    });
  });

  it('a flow does not ask a client that has not declared the capability', async () => {
    const peer = await flowPeer(major, async (_, flow) => {
      const reaction = await flow.ask('a', how).catch((error: FlowError) => error.code);
      return text(String(reaction));
    });
    expect(said(await peer.say(modernCall({}, {}, { sampling: {} })))).toBe('client-cannot');
    await peer.close();
  });

  it('parallel questions are asked one after another if the client carries one state at a time', async () => {
    const peer = await flowPeer(
      major,
      async (_, flow) => {
        const [a, b] = await Promise.all([flow.ask('a', name), flow.ask('b', name)]);
        return text(`${a.name}${b.name}`);
      },
      { capabilities: ours('state') },
    );
    const first = await peer.say(call());
    const second = await peer.say(echo(first, accept({ name: 'A' })));
    expect(second.method).toBe('elicitation/create');
    expect(said(await peer.say(echo(second, accept({ name: 'B' }))))).toBe('AB');
    await peer.close();
  });

  it('[R-15] a flow waits in memory if the author says so', async () => {
    let runs = 0;
    const peer = await flowPeer(
      major,
      async (_, flow) => {
        runs++;
        const { content } = await flow.sample('s', { messages: [], maxTokens: 1 });
        const { name: who } = await flow.ask('a', name);
        return text(`${(content as { text: string }).text} ${who}`);
      },
      { flow: { wait: ['sample'] } },
    );
    const sampling = await peer.say(call());
    expect(sampling).not.toHaveProperty('state');
    const result = { role: 'assistant', content: { type: 'text', text: 'hi' }, model: 'm' };
    const asking = await peer.say({ jsonrpc: '2.0', id: sampling.id as string, result });
    expect(asking).toHaveProperty('state');
    expect(runs).toBe(1);
    expect(said(await peer.say(echo(asking, accept({ name: 'Ada' }))))).toBe('hi Ada');
    await peer.close();
  });
});
