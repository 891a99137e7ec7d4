import { describe, expect, it } from 'vitest';
import { call, echo, flowPeer, modernCall, ours, text, type Wire } from './flow-peer.ts';
import { MAJORS } from './majors.ts';

const form = {
  message: 'Who?',
  schema: {
    type: 'object',
    properties: {
      name: { type: 'string' },
      tags: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } },
    },
  },
} as const;

/** As it comes from the wire: `__proto__` is a property of its own there. */
const HOSTILE = JSON.parse(
  '{"name":"Ada","role":"admin","__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}},"prototype":1,"tags":["a"]}',
) as object;
const NESTED = JSON.parse(
  '{"type":"text","text":"hi","__proto__":{"isAdmin":true},"annotations":{"constructor":{"x":1},"audience":["user"]}}',
) as object;

/** Ways to ask and to answer. */
const WAYS = {
  requestState: {
    capabilities: ours(),
    first: () => modernCall(),
    answer: ({ result }: Wire, key: string, given: object) =>
      modernCall({}, { requestState: result.requestState, inputResponses: { [key]: given } }),
  },
  'an answer brought along': {
    capabilities: ours(),
    first: undefined,
    answer: (_: Wire, key: string, given: object) => modernCall({}, { inputResponses: { [key]: given } }),
  },
  state: {
    capabilities: ours('state'),
    first: () => call(),
    answer: (asked: Wire, _key: string, given: object) => echo(asked, given),
  },
  dependent_responses: {
    capabilities: ours('dependent-shared'),
    first: () => call(),
    answer: ({ dependent_requests: { state } }: Wire, _key: string, result: object) =>
      call({}, { dependent_responses: { state, responses: [{ result }] } }),
  },
  memory: {
    capabilities: { elicitation: {}, sampling: {}, roots: {} },
    first: () => call(),
    answer: (asked: Wire, _key: string, given: object) => echo(asked, given),
  },
} as const;

describe.each(MAJORS)('an answer to an SDK $major server', (major) => {
  describe.each(Object.entries(WAYS))('carrier: %s', (_, { capabilities, first, answer }) => {
    const answered = async (key: 'a' | 's' | 'r', given: object): Promise<Record<string, unknown>> => {
      let got: unknown;
      const sampling = { messages: [], maxTokens: 1 };
      const peer = await flowPeer(
        major,
        async (_, flow) => {
          if (key === 'a') got = await flow.ask(key, form);
          else got = key === 's' ? await flow.sample(key, sampling) : await flow.roots(key);
          return text('done');
        },
        { capabilities },
      );
      const asked = first ? await peer.say(first()) : ({} as Wire);
      const done = await peer.say(answer(asked, key, given));
      expect(done.result).toMatchObject(text('done'));
      await peer.close();
      return got as Record<string, unknown>;
    };

    it('an answer reaches the handler with only the fields that the form asked for', async () => {
      const got = await answered('a', { action: 'accept', content: HOSTILE });
      expect(Reflect.ownKeys(got).sort()).toEqual(['name', 'tags']);
      expect(got).toEqual({ name: 'Ada', tags: ['a'] });
      expect(got['isAdmin']).toBeUndefined();
    });

    it('a sampling result or a list of roots reaches the handler without names such as __proto__', async () => {
      const sampled = await answered('s', { role: 'assistant', model: 'm', content: NESTED });
      expect(sampled['content']).toEqual({ type: 'text', text: 'hi', annotations: { audience: ['user'] } });
      expect(Object.hasOwn(sampled['content'] as object, '__proto__')).toBe(false);
      const roots = await answered('r', { roots: [{ uri: 'file:///x', ...NESTED }] });
      expect(JSON.stringify(roots)).not.toMatch(/__proto__|constructor/);
    });
  });

  it('a form cannot ask for a field such as __proto__', async () => {
    const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}}}');
    const peer = await flowPeer(major, (_, flow) => flow.ask('a', { message: 'Who?', schema }));
    expect((await peer.say(modernCall())).result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('nobody can fill in "__proto__"') }],
    });
    await peer.close();
  });
});
