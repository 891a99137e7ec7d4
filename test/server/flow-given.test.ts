import type { Flow } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { flowPeer, modernCall, name, text } from './flow-peer.ts';
import { MAJORS } from './majors.ts';

/** What a handler does wrong, past its types, and what its author hears. */
const MISTAKES: readonly [what: string, wrong: (flow: Flow) => Promise<unknown>, words: string][] = [
  [
    'ask without a key',
    (flow) => flow.ask(name as never, undefined as never),
    'A step of a flow has no key. Give each step a text of its own.',
  ],
  [
    'ask without a question',
    (flow) => flow.ask('a', undefined as never),
    'Invalid argument for flow.ask("a"). Pass { message, schema }, or { message, url }.',
  ],
  [
    'ask without a message',
    (flow) => flow.ask('a', { schema: name.schema } as never),
    'The question "a" has no message. Give { message, schema }, or { message, url }.',
  ],
  [
    'ask with an unknown option',
    (flow) => flow.ask('a', { ...name, refused: 'value' } as never),
    'flow.ask("a") has no option refused. Pass one of message, schema, url, refusal, ttl, consent, secret.',
  ],
  [
    'ask with an invalid option value',
    (flow) => flow.ask('a', { ...name, refusal: 'return' } as never),
    `Invalid value for the option refusal of flow.ask("a"). Pass 'throw' or 'value'.`,
  ],
  [
    'ask with a page and a form',
    (flow) => flow.ask('a', { ...name, url: 'https://example.com/pay' }),
    'Invalid argument for flow.ask("a"). Pass { message, schema }, or { message, url }.',
  ],
  [
    'sample without params',
    (flow) => flow.sample('a', undefined as never),
    'Invalid argument for flow.sample("a"). Pass the params of sampling/createMessage, with a list of messages and a number of maxTokens.',
  ],
  [
    'sample with a misspelled list of messages',
    (flow) => flow.sample('a', { message: [], maxTokens: 10 }),
    'Invalid argument for flow.sample("a"). Pass the params of sampling/createMessage, with a list of messages and a number of maxTokens.',
  ],
  [
    'roots with a key that is not text',
    (flow) => flow.roots({} as never),
    'A step of a flow has no key. Give each step a text of its own.',
  ],
  [
    'once without an effect',
    (flow) => flow.once('a', undefined as never),
    'Invalid argument for flow.once("a"). Pass a function.',
  ],
  [
    'once with an unknown option',
    (flow) => flow.once('a', () => 1, { cutoff: 'retry' } as never),
    'flow.once("a") has no option cutoff. Pass one of cutOff.',
  ],
  [
    'once with an invalid option value',
    (flow) => flow.once('a', () => 1, { cutOff: 'again' } as never),
    `Invalid value for the option cutOff of flow.once("a"). Pass 'fail' or 'retry'.`,
  ],
  [
    'until without a function',
    (flow) => flow.until('a', undefined as never),
    'Invalid argument for flow.until("a"). Pass a function.',
  ],
  [
    'until with an unknown option',
    (flow) => flow.until('a', () => 1, { each: 1 } as never),
    'flow.until("a") has no option each. Pass one of every, hold.',
  ],
];

describe.each(MAJORS)('invalid arguments of steps on an SDK $major server', (major) => {
  it.each(MISTAKES)('a flow refuses %s, and the error names the step', async (_, wrong, words) => {
    const peer = await flowPeer(major, async (_args, flow) => {
      await wrong(flow);
      return text('fine');
    });
    const { result } = await peer.say(modernCall());
    expect(result).toMatchObject({ isError: true });
    // The model reads what happened, and the author what to do about it.
    const [{ text: told }] = result.content;
    expect(words.startsWith(told)).toBe(true);
    expect(peer.warnings.map(({ next }) => `${told} ${next}`)).toContain(words);
    await peer.close();
  });

  it('a flow accepts an option that is undefined', async () => {
    const peer = await flowPeer(major, async (_, flow) => {
      await flow.once('a', () => 1, { cutOff: undefined } as never);
      await flow.ask('b', { ...name, refusal: undefined, url: undefined, ttl: undefined } as never);
      return text('fine');
    });
    const { result } = await peer.say(modernCall());
    expect(result.inputRequests.b.params).toEqual({ message: 'Who?', requestedSchema: name.schema });
    await peer.close();
  });
});
