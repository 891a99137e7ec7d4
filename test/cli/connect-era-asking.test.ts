import { describe, expect, it } from 'vitest';
import { Bridge } from '../../src/cli/bridge/bridge.ts';
import { VERSION_GONE } from '../../src/client/continuity/lost.ts';
import { ValiseError } from '../../src/errors.ts';
import type { Message, Params, Request, Result } from '../../src/wire/index.ts';
import { answerNewer, answerOlder, call, pinned, serve } from './newer-host.ts';
import { sdkHost } from './sdk-hosts.ts';
import { VALISE } from './valise.ts';

const CAPABILITIES = { elicitation: {} };
const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': CAPABILITIES,
};
const DISCOVERED = { supportedVersions: ['2026-07-28'], capabilities: {} };
const INTRODUCED = { protocolVersion: '2025-11-25', capabilities: { tools: { listChanged: true } } };
const QUESTION = { method: 'elicitation/create', params: { message: 'Who?' } };
const ASKING = { resultType: 'input_required', inputRequests: { name: QUESTION }, requestState: 's' };
const DONE = { content: [] };
const ACCEPTED = { action: 'accept', content: {} };
const REPLACED = expect.stringMatching(/server was replaced .* look before calling again/);

/** A bridge whose host and server are the test. The server introduces itself as one of its era; all else waits. */
function between(first: 'older' | 'newer') {
  let era = first;
  const host: Message[] = [];
  const open: Request[] = [];
  const sent: Message[] = [];
  const bridge = new Bridge({
    newer: 'always',
    toHost: (message) => void host.push(message),
    async toServer(message) {
      sent.push(message);
      if (!('method' in message) || !('id' in message)) return;
      const { id, method } = message as Request;
      const isIntroduction = method === 'initialize' || method === 'server/discover';
      if (!isIntroduction) open.push(message as Request);
      else if (method !== (era === 'older' ? 'initialize' : 'server/discover'))
        bridge.fromServer({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
      else bridge.fromServer({ jsonrpc: '2.0', id, result: era === 'older' ? INTRODUCED : DISCOVERED });
    },
  });
  const take = (name: string): Request['id'] => {
    const at = open.findLastIndex(({ method, params }) => (params?.['name'] ?? method) === name);
    return open.splice(at, 1)[0]?.id as Request['id'];
  };
  const ask = async (id: number, method: string, params: Params) => {
    bridge.fromHost({ jsonrpc: '2.0', id, method, params });
    await settled();
  };
  return {
    host,
    sent,
    bridge,
    ask,
    call: (id: number, name: string, more: Params = {}) => ask(id, 'tools/call', { name, ...more }),
    become(next: 'older' | 'newer') {
      era = next;
    },
    /** The server answers the latest call of this tool. */
    async answer(name: string, result: Result) {
      bridge.fromServer({ jsonrpc: '2.0', id: take(name), result });
      await settled();
    },
    /** The server does not take the latest call of this tool. */
    async refuse(name: string) {
      const error = { code: -32603, message: 'gone' };
      bridge.fromServer({ jsonrpc: '2.0', id: take(name), error }, new ValiseError(VERSION_GONE, 'gone'));
      await settled();
    },
    /** What the host was answered under an id. */
    answers: (id: number) => host.filter((message) => !('method' in message) && message.id === id),
  };
}

/** All that is under way without input or output has come to rest. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** An older host in front of a newer server, which has asked something during call 1. */
async function olderHostAsked() {
  const all = between('newer');
  await all.ask(0, 'initialize', { capabilities: CAPABILITIES });
  await all.call(1, 'asks');
  await all.answer('asks', ASKING);
  const question = all.host.at(-1) as Request;
  expect(question).toMatchObject(QUESTION);
  return { ...all, question };
}

/** A newer host in front of an older server, which has asked something during call 1. */
async function newerHostAsked() {
  const all = between('older');
  const call = (id: number, name: string, more: Params = {}) =>
    all.call(id, name, { ...more, _meta: ENVELOPE });
  await call(1, 'asks');
  all.bridge.fromServer({ jsonrpc: '2.0', id: 77, ...QUESTION });
  const [asking] = all.answers(1) as { result: Result }[];
  expect(asking).toMatchObject({ result: { resultType: 'input_required' } });
  const answered = { inputResponses: { q1: ACCEPTED }, requestState: asking?.result['requestState'] };
  return { ...all, call, answered };
}

describe('valise connect, where the server becomes one of the other era while it asks', () => {
  it.each(['v1', 'v2'] as const)(
    'ends the call that a %s host is asked in, and takes the question back',
    async (kind) => {
      const server = await serve(answerNewer());
      let asked = (): void => {};
      const isAsked = new Promise<void>((resolve) => (asked = resolve));
      const { client } = await sdkHost(
        kind,
        [process.execPath, VALISE, 'connect', server.url, '--store', 'memory:'],
        {
          capabilities: CAPABILITIES,
          answers: {
            'elicitation/create': () => {
              asked();
              return new Promise(() => {});
            },
          },
        },
      );
      const ended = expect(call(client, 'who')).rejects.toThrow(
        /server was replaced .* look before calling again/,
      );
      await isAsked;
      server.become(answerOlder());
      expect(await call(client, 'add', { a: 1, b: 1 })).toBe('2');
      await ended;
    },
  );

  it('ends the call that a host of 2026-07-28 is asked in', async () => {
    const server = await serve(answerOlder());
    let client: Awaited<ReturnType<typeof pinned>>;
    client = await pinned(server.url, { capabilities: CAPABILITIES }, (host) =>
      host.setRequestHandler('elicitation/create', async () => {
        server.become(answerNewer());
        expect(await call(client, 'add', { a: 1, b: 1 })).toBe('newer: 2');
        return { action: 'accept', content: { name: 'Ada' } };
      }),
    );
    await expect(call(client, 'greet')).rejects.toThrow(/look before calling again/);
  });

  it('withdraws its question, and swallows an answer that comes too late', async () => {
    const { host, sent, bridge, become, call, refuse, answer, answers, question } = await olderHostAsked();
    become('older');
    await call(2, 'plain');
    await refuse('plain');
    await answer('plain', DONE);
    expect(host).toContainEqual({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: question.id },
    });
    expect(answers(1)).toEqual([expect.objectContaining({ error: { code: -32603, message: REPLACED } })]);
    expect(answers(2)).toEqual([expect.objectContaining({ result: DONE })]);
    sent.length = 0;
    bridge.fromHost({ jsonrpc: '2.0', id: question.id, result: ACCEPTED });
    await settled();
    expect(sent).toEqual([]);
    expect(answers(1)).toHaveLength(1);
  });

  it('never asks under the id of a question that it has withdrawn', async () => {
    const { host, become, call, refuse, answer, question } = await olderHostAsked();
    become('older');
    await call(2, 'plain');
    await refuse('plain');
    become('newer');
    await call(3, 'asks');
    await refuse('asks');
    await answer('asks', ASKING);
    const another = host.at(-1) as Request;
    expect(another).toMatchObject(QUESTION);
    expect(another.id).not.toBe(question.id);
  });

  it.each([
    ['an outcome', { ...DONE, resultType: 'complete' }, { result: DONE }],
    ['one more question', ASKING, { error: { code: -32603, message: REPLACED } }],
  ])('hands on %s that was on its way from the server before', async (_, late, heard) => {
    const { bridge, become, call, refuse, answer, answers, question } = await olderHostAsked();
    bridge.fromHost({ jsonrpc: '2.0', id: question.id, result: ACCEPTED });
    await settled();
    become('older');
    await call(2, 'plain');
    await refuse('plain');
    await answer('asks', late);
    expect(answers(1)).toEqual([{ jsonrpc: '2.0', id: 1, ...heard }]);
  });

  it('answers a host of 2026-07-28 under the id that it waits under', async () => {
    const { become, call, answered, refuse, answer, answers } = await newerHostAsked();
    await call(2, 'asks', answered);
    become('newer');
    await call(3, 'plain');
    await refuse('plain');
    await answer('asks', DONE);
    expect(answers(2)).toMatchObject([{ result: DONE }]);
    expect(answers(1)).toHaveLength(1);
  });

  it('does not hand the answers of a host of 2026-07-28 to a server that has not asked', async () => {
    const { sent, become, call, answered, refuse, answers } = await newerHostAsked();
    become('newer');
    await call(2, 'plain');
    await refuse('plain');
    sent.length = 0;
    await call(3, 'asks', answered);
    expect(sent).toEqual([]);
    expect(answers(3)).toEqual([{ jsonrpc: '2.0', id: 3, error: { code: -32603, message: REPLACED } }]);
  });

  it('hands on what a newer server had answered before, to a host of 2026-07-28', async () => {
    const { become, ask, call, refuse, answer, answers } = between('newer');
    await ask(0, 'server/discover', { _meta: ENVELOPE });
    for (const [at, name] of ['slow', 'plain'].entries()) await call(at + 1, name, { _meta: ENVELOPE });
    become('older');
    await refuse('plain');
    await answer('slow', { ...DONE, resultType: 'complete' });
    expect(answers(1)).toMatchObject([{ result: { ...DONE, resultType: 'complete' } }]);
  });

  it('acknowledges a listener once, however many calls notice', async () => {
    const { host, become, ask, call, refuse } = between('newer');
    const listen = { notifications: { toolsListChanged: true }, _meta: ENVELOPE };
    await ask(0, 'server/discover', { _meta: ENVELOPE });
    for (const id of [1, 2, 3]) await call(id, `call ${id}`, { _meta: ENVELOPE });
    await ask(4, 'subscriptions/listen', listen);
    become('older');
    for (const id of [1, 2, 3]) await refuse(`call ${id}`);
    await refuse('subscriptions/listen');
    const methods = host.map((message) => 'method' in message && message.method);
    expect(methods.filter((method) => method === 'notifications/subscriptions/acknowledged')).toHaveLength(1);
  });
});
