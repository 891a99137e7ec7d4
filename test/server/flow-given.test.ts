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
    'flow.ask("a") was given something else than it takes. Give { message, schema }, or { message, url }.',
  ],
  [
    'ask without a message',
    (flow) => flow.ask('a', { schema: name.schema } as never),
    'The question "a" has no message. Give { message, schema }, or { message, url }.',
  ],
  [
    'ask with an option that there is not',
    (flow) => flow.ask('a', { ...name, refused: 'value' } as never),
    'flow.ask("a") has no option refused. Give one of message, schema, url, refusal, ttl, consent, secret.',
  ],
  [
    'ask with an option that is something else',
    (flow) => flow.ask('a', { ...name, refusal: 'return' } as never),
    `The option refusal of flow.ask("a") is not what it takes. Give 'throw' or 'value'.`,
  ],
  [
    'ask with a page and a form',
    (flow) => flow.ask('a', { ...name, url: 'https://example.com/pay' }),
    'flow.ask("a") was given something else than it takes. Give { message, schema }, or { message, url }.',
  ],
  [
    'sample without params',
    (flow) => flow.sample('a', undefined as never),
    'flow.sample("a") was given something else than it takes. Give the params of sampling/createMessage, with a list of messages and a number of maxTokens.',
  ],
  [
    'sample with a misspelt list of messages',
    (flow) => flow.sample('a', { message: [], maxTokens: 10 }),
    'flow.sample("a") was given something else than it takes. Give the params of sampling/createMessage, with a list of messages and a number of maxTokens.',
  ],
  [
    'roots with something else than a key',
    (flow) => flow.roots({} as never),
    'A step of a flow has no key. Give each step a text of its own.',
  ],
  [
    'once without an effect',
    (flow) => flow.once('a', undefined as never),
    'flow.once("a") was given something else than it takes. Give a function.',
  ],
  [
    'once with an option that there is not',
    (flow) => flow.once('a', () => 1, { cutoff: 'retry' } as never),
    'flow.once("a") has no option cutoff. Give one of cutOff.',
  ],
  [
    'once with an option that is something else',
    (flow) => flow.once('a', () => 1, { cutOff: 'again' } as never),
    `The option cutOff of flow.once("a") is not what it takes. Give 'fail' or 'retry'.`,
  ],
  [
    'until with nothing that looks',
    (flow) => flow.until('a', undefined as never),
    'flow.until("a") was given something else than it takes. Give a function.',
  ],
  [
    'until with an option that there is not',
    (flow) => flow.until('a', () => 1, { each: 1 } as never),
    'flow.until("a") has no option each. Give one of every, hold.',
  ],
];

describe.each(MAJORS)('a flow on an SDK $major server refuses by name', (major) => {
  it.each(MISTAKES)('%s', async (_, wrong, words) => {
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

  it('nothing, where an option is undefined', async () => {
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
