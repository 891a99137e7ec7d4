import { ElicitRequestFormParamsSchema } from '@modelcontextprotocol/sdk/types.js';
import { createValise, type Flow } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, vi } from 'vitest';
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

const answers = { a: accept({}), b: accept({}), c: accept({}) };

const again = (peer: FlowPeer, { result }: Wire): Promise<Wire> =>
  peer.say(modernCall({}, { requestState: result.requestState, inputResponses: answers }));

/** What the model reads, and after it the advice that only the author is given. */
const complaint = ({ result }: Wire, { warnings }: FlowPeer): string => {
  expect(result.isError).toBe(true);
  const [{ text: told }] = result.content;
  const next = warnings.find(({ what }) => what.endsWith(`: ${told}`))?.next;
  return next === undefined ? told : `${told} ${next}`;
};

/** What the SDK lets through. */
const isForm = (requestedSchema: object): boolean =>
  ElicitRequestFormParamsSchema.safeParse({ message: 'Who?', requestedSchema }).success;

describe.each(MAJORS)('mistakes in flows on an SDK $major server', (major) => {
  it('two steps with one key are an error, even if the handler catches it', async () => {
    const peer = await flowPeer(major, async (_, flow) => {
      await Promise.allSettled([flow.ask('a', name), flow.once('a', () => 1)]);
      return text('fine');
    });
    expect(complaint(await peer.say(modernCall()), peer)).toBe(
      'The flow has two steps with the key "a". Give each ask, sample, roots, once and until a key of its own; in a loop, put the index into it.',
    );
    await peer.close();
  });

  it.each(['state', 'dependent-shared', 'memory'] as const)(
    'a flow may ask 100 questions, and the next one is an error (%s)',
    async (way) => {
      const peer = await flowPeer(
        major,
        async (_, flow) => {
          for (let at = 1; ; at++) await flow.ask(`question ${at}`, name);
        },
        { capabilities: way === 'memory' ? { elicitation: {} } : ours(way) },
      );
      let asked = 0;
      let message = await peer.say(call());
      while (message.method || message.dependent_requests) {
        asked++;
        const { dependent_requests: round } = message;
        const responses = [{ result: accept({}) }];
        message = await peer.say(
          round
            ? call({}, { dependent_responses: { state: round.state, responses } })
            : echo(message, accept({})),
        );
      }
      expect(asked).toBe(100);
      expect(complaint(message, peer)).toBe(
        'The call may not ask "question 101": it has had 100 answers, the most there may be. Ask for more in one form, or spread the questions over several calls.',
      );
      await peer.close();
    },
  );

  it('a question that changes between runs is an error', async () => {
    let run = 0;
    const peer = await flowPeer(major, async (_, flow) => {
      run++;
      await flow.ask('a', { ...name, message: `Run ${run}?` });
      return text('fine');
    });
    expect(complaint(await again(peer, await peer.say(modernCall())), peer)).toMatch(
      /^The step "a" is not what it was in an earlier round: the handler does not do the same each time it runs\. Let questions depend only on/,
    );
    await peer.close();
  });

  it('a handler that skips an earlier question and asks a new one is an error', async () => {
    let run = 0;
    const peer = await flowPeer(major, async (_, flow) => {
      run++;
      await flow.ask(run === 1 ? 'a' : 'b', name);
      return text('fine');
    });
    expect(complaint(await again(peer, await peer.say(modernCall())), peer)).toMatch(
      /^The handler asks something new, but did not come to "a" as in an earlier round\./,
    );
    await peer.close();
  });

  it('a flow may finish without asking its question again', async () => {
    let resolved = false;
    const peer = await flowPeer(major, async (_, flow) => {
      if (resolved) return text('resolved by somebody else');
      await flow.ask('a', name);
      return text('fine');
    });
    const first = await peer.say(modernCall());
    resolved = true;
    expect((await again(peer, first)).result.content[0].text).toBe('resolved by somebody else');
    await peer.close();
  });

  it('a flow may reach a step late if the step is the same', async () => {
    const late = async (flow: Flow, key: string): Promise<void> => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      await flow.ask(key, name);
    };
    const peer = await flowPeer(major, async (_, flow) => {
      await flow.ask('a', name);
      await Promise.all([flow.ask('b', name), late(flow, 'c')]);
      return text('fine');
    });
    const second = await again(peer, await peer.say(modernCall()));
    const third = await again(peer, second);
    expect((await again(peer, third)).result.content[0].text).toBe('fine');
    await peer.close();
  });

  it('a journal that is too large to travel is an error', async () => {
    const work = async (_: unknown, flow: Flow) => {
      const { length } = await flow.once('big', () => 'x'.repeat(5000));
      await flow.ask('a', name);
      return text(String(length));
    };
    const peer = await flowPeer(major, work, { flow: { budget: 2000 } });
    expect(complaint(await peer.say(modernCall()), peer)).toMatch(
      /^What this flow has to remember is \d{4,5} bytes long, and no more than 2000 may travel\. Return less .* give createValise a store/,
    );
    await peer.close();
    // With a store the rest stays there.
    const stored = await flowPeer(major, work, { flow: { budget: 2000 }, options: { store: memoryStore() } });
    const first = await stored.say(modernCall());
    expect(first.result.requestState.length).toBeLessThan(2000);
    expect((await again(stored, first)).result.content[0].text).toBe('5000');
    await stored.close();
  });

  it('an effect whose value cannot be saved is an error', async () => {
    const peer = await flowPeer(major, async (_, flow) => {
      await flow.once('odd', () => 1n);
      return text('fine');
    });
    expect(complaint(await peer.say(modernCall()), peer)).toBe(
      'What the effect "odd" returned is not JSON: it is a bigint. Return plain data, or nothing.',
    );
    await peer.close();
  });

  it('a schema that is not the schema of a form is an error', async () => {
    const peer = await flowPeer(major, async (_, flow) => {
      await flow.ask('a', { message: 'Who?', schema: { type: 'string' } as never });
      return text('fine');
    });
    expect(complaint(await peer.say(modernCall()), peer)).toMatch(
      /^The schema of the question "a" is not the schema of a form\./,
    );
    await peer.close();
  });

  const titled = [{ const: 'a', title: 'A' }];
  const form = (field: unknown) => ({ type: 'object', properties: { o: field } });

  it.each([
    { type: 'object' },
    { type: 'null' },
    {},
    'string',
    { type: 'array' },
    { type: 'array', items: { type: 'string' } },
    { type: 'array', items: { type: 'number', enum: ['a'] } },
    { type: 'array', items: { anyOf: [{ const: 'a' }] } },
    { type: ['string', 'null'] },
    { type: 'string', format: 'uuid' },
  ])('a form with the field %j is refused', async (field) => {
    const peer = await flowPeer(major, async (_, flow) => {
      await flow.ask('a', { message: 'Who?', schema: form(field) as never });
      return text('fine');
    });
    expect(complaint(await peer.say(modernCall()), peer)).toMatch(
      /^The schema of the question "a" is not the schema of a form: nobody can fill in "o"\. Let it be /,
    );
    expect(isForm(form(field))).toBe(false);
    await peer.close();
  });

  it.each([
    { type: 'string', minLength: 1, format: 'date-time', pattern: 'x' },
    { type: 'integer', minimum: 1 },
    { type: 'number' },
    { type: 'boolean', default: true },
    { type: 'string', enum: ['a'], enumNames: ['A'] },
    { type: 'string', oneOf: titled, format: 'color' },
    { type: 'array', items: { type: 'string', enum: ['a'] }, maxItems: 1 },
    { type: 'array', items: { anyOf: titled } },
    { type: 'array', items: { type: 'number', anyOf: titled } },
  ])('a form with the field %j is accepted', async (field) => {
    const peer = await flowPeer(major, async (_, flow) => {
      await flow.ask('a', { message: 'Who?', schema: form(field) as never });
      return text('fine');
    });
    expect((await peer.say(modernCall())).result.inputRequests.a.params.requestedSchema).toEqual(form(field));
    expect(isForm(form(field))).toBe(true);
    await peer.close();
  });

  describe('a handler with a new version', () => {
    const work = async (_: unknown, flow: Flow) => {
      await flow.ask('a', name);
      return text('fine');
    };
    const valise = createValise({ name: 'test' });

    it('a flow that another version of the handler began is an error', async () => {
      const old = await flowPeer(major, work, { valise, flow: { version: 1 } });
      const peer = await flowPeer(major, work, { valise, flow: { version: 2 } });
      expect(complaint(await again(peer, await old.say(modernCall())), peer)).toBe(
        'This call was begun by a handler of version 1, and the handler here has version 2. Make the call again.',
      );
      await Promise.all([old.close(), peer.close()]);
    });

    it('a flow that another version of the handler began starts over with otherVersion: restart', async () => {
      const old = await flowPeer(major, work, { valise, flow: { version: 1 } });
      const peer = await flowPeer(major, work, { valise, flow: { version: 2, otherVersion: 'restart' } });
      const over = await again(peer, await old.say(modernCall()));
      expect(Object.keys(over.result.inputRequests)).toEqual(['a']);
      expect((await again(peer, over)).result.content[0].text).toBe('fine');
      await Promise.all([old.close(), peer.close()]);
    });
  });

  it('a flow on a server without Valise is an error', async () => {
    const valise = createValise({ name: 'test' });
    const handler = valise.flow(async (flow) => flow.id);
    await expect(handler({})).rejects.toMatchObject({
      code: 'outside-request',
      message:
        'A flow was called on a server without Valise. Call valise.install(server) before server.connect().',
    });
  });

  it('createValise() refuses a flow mode that needs a store if there is none', () => {
    expect(() => createValise({ name: 'test', flows: { mode: 'dual' } })).toThrow(
      `Flows are to be kept as "dual", and there is no store. Give createValise a store, or set the mode to 'carried'.`,
    );
    expect(() => createValise({ name: 'test', flows: { mode: 'both' as never } })).toThrow(
      'is not a mode of flows',
    );
  });

  it('prompts and resources may be flows too', async () => {
    const peer = await flowPeer(major, async () => text('unused'), {
      also(server, valise) {
        server.registerPrompt(
          'greet',
          {},
          valise.flow(async (flow) => {
            const { name: who } = await flow.ask('a', name);
            return { messages: [{ role: 'user', content: { type: 'text', text: `Greet ${who}` } }] };
          }) as never,
        );
        server.registerResource(
          'page',
          'page://one',
          {},
          valise.flow(async (uri: URL, flow: Flow) => {
            const { name: who } = await flow.ask('a', name);
            return { contents: [{ uri: uri.href, text: `Page of ${who}` }] };
          }) as never,
        );
      },
    });
    const prompt = await peer.say({
      jsonrpc: '2.0',
      id: 1,
      method: 'prompts/get',
      params: { name: 'greet' },
    });
    expect(prompt.method).toBe('elicitation/create');
    const greeted = await peer.say(echo(prompt, accept({ name: 'Ada' })));
    expect(greeted).toMatchObject({ id: 1, result: { messages: [{ content: { text: 'Greet Ada' } }] } });
    const page = await peer.say({
      jsonrpc: '2.0',
      id: 2,
      method: 'resources/read',
      params: { uri: 'page://one' },
    });
    const read = await peer.say(echo(page, accept({ name: 'Ada' })));
    expect(read).toMatchObject({ id: 2, result: { contents: [{ text: 'Page of Ada' }] } });
    await peer.close();
  });

  it('a question that waits in memory is canceled with its call', async () => {
    let caught: unknown;
    const peer = await flowPeer(
      major,
      async (_, flow) => {
        await flow.ask('a', name).catch((error: unknown) => {
          caught = error;
        });
        return text('over');
      },
      { capabilities: { elicitation: {} } },
    );
    const request = call();
    const asked = await peer.say(request);
    const cancelled = await peer.say({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: request.id },
    });
    expect(cancelled).toMatchObject({ method: 'notifications/cancelled', params: { requestId: asked.id } });
    await vi.waitFor(() => expect(caught).toMatchObject({ code: 'ask-cancelled' }));
    await peer.close();
  });

  it('a question that nobody answers in time is an error', async () => {
    const peer = await flowPeer(
      major,
      async (_, flow) => {
        await flow.ask('a', name);
        return text('over');
      },
      { capabilities: { elicitation: {} }, flow: { ttl: 1 } },
    );
    await peer.say(call());
    expect(await peer.next()).toMatchObject({ method: 'notifications/cancelled' });
    expect(complaint(await peer.next(), peer)).toBe(
      'Nobody answered "a" within 1 s. Give the flow or the question a longer ttl.',
    );
    await peer.close();
  });
});
