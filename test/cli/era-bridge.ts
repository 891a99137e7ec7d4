import { expect } from 'vitest';
import { Bridge, type BridgeOptions } from '../../cli/src/bridge/bridge.ts';
import type { AskingCall, Done } from '../../cli/src/bridge/translation.ts';
import { VERSION_GONE } from '../../src/client/connection/errors.ts';
import { ValiseError } from '../../src/core/errors.ts';
import type { Message, Params, Request, Result } from '../../src/wire/index.ts';

export const CAPABILITIES = { elicitation: {} };
export const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': CAPABILITIES,
};
const DISCOVERED = { supportedVersions: ['2026-07-28'], capabilities: {} };
const INTRODUCED = { protocolVersion: '2025-11-25', capabilities: { tools: { listChanged: true } } };
export const QUESTION = { method: 'elicitation/create', params: { message: 'Who?' } };
export const ASKING = { resultType: 'input_required', inputRequests: { name: QUESTION }, requestState: 's' };
export const DONE = { content: [] };
export const ACCEPTED = { action: 'accept', content: {} };
export const REPLACED = expect.stringMatching(/server was replaced .* look before calling again/);

/** A bridge whose host and server are the test. The server introduces itself as one of its era; all else waits. */
export function between(first: 'older' | 'newer', newer: BridgeOptions['newer'] = 'always') {
  let era = first;
  const host: Message[] = [];
  const open: { readonly request: Request; readonly done: Done }[] = [];
  const sent: Message[] = [];
  const takenBack: AskingCall[] = [];
  const bridge = new Bridge({
    newer,
    takenBack: (asking) => void takenBack.push(asking),
    toHost: (message) => void host.push(message),
    server: {
      request(request, done) {
        sent.push(request);
        const { id, method } = request;
        const isIntroduction = method === 'initialize' || method === 'server/discover';
        if (!isIntroduction) open.push({ request, done });
        else if (method !== (era === 'older' ? 'initialize' : 'server/discover'))
          done({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
        else done({ jsonrpc: '2.0', id, result: era === 'older' ? INTRODUCED : DISCOVERED });
      },
      async notify(message) {
        sent.push(message);
      },
    },
  });
  const take = (name: string) => {
    const at = open.findLastIndex(({ request: { method, params } }) => (params?.['name'] ?? method) === name);
    const [taken] = open.splice(at, 1);
    if (!taken) throw new Error(`the server has no request ${name}`);
    return { id: taken.request.id, done: taken.done };
  };
  const refuseNow = (name: string): void => {
    const { id, done } = take(name);
    const error = { code: -32603, message: 'gone' };
    done({ jsonrpc: '2.0', id, error }, new ValiseError(VERSION_GONE, 'gone'));
  };
  const ask = async (id: number, method: string, params: Params) => {
    bridge.fromHost({ jsonrpc: '2.0', id, method, params });
    await settled();
  };
  return {
    host,
    sent,
    /** Calls that the host has cancelled while it was asked. */
    takenBack,
    bridge,
    ask,
    call: (id: number, name: string, more: Params = {}) => ask(id, 'tools/call', { name, ...more }),
    become(next: 'older' | 'newer') {
      era = next;
    },
    /** The server answers the latest call of this tool. */
    async answer(name: string, result: Result) {
      const { id, done } = take(name);
      done({ jsonrpc: '2.0', id, result });
      await settled();
    },
    refuseNow,
    /** The server does not take the latest call of this tool. */
    async refuse(name: string) {
      refuseNow(name);
      await settled();
    },
    /** The host takes a request back. */
    async cancel(requestId: number) {
      bridge.fromHost({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } });
      await settled();
    },
    /** The host answers what it is asked. */
    async reply(id: Request['id']) {
      bridge.fromHost({ jsonrpc: '2.0', id, result: ACCEPTED });
      await settled();
    },
    /** What the host was answered under an id. */
    answers: (id: number) => host.filter((message) => !('method' in message) && message.id === id),
  };
}

/** All that is under way without input or output has come to rest. */
export const settled = () => new Promise((resolve) => setImmediate(resolve));

/** An older host in front of a newer server, which has asked something during call 1. */
export async function olderHostAsked() {
  const all = between('newer');
  await all.ask(0, 'initialize', { capabilities: CAPABILITIES });
  await all.call(1, 'asks');
  await all.answer('asks', ASKING);
  const question = all.host.at(-1) as Request;
  expect(question).toMatchObject(QUESTION);
  return { ...all, question };
}

/** A newer host in front of an older server, which has asked something during call 1. */
export async function newerHostAsked() {
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

/** What takes a request back. */
export const cancelled = (requestId: unknown) => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId },
});
