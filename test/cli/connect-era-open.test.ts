import { describe, expect, it } from 'vitest';
import type { Message, Request } from '../../src/wire/index.ts';
import {
  ACCEPTED,
  ASKING,
  between,
  CAPABILITIES,
  cancelled,
  DONE,
  ENVELOPE,
  olderHostAsked,
  QUESTION,
  REPLACED,
  settled,
} from './era-bridge.ts';

const OVER = { error: { code: -32603, message: REPLACED } };
const COMPLETE = { ...DONE, resultType: 'complete' };
const INPUT = { inputResponses: { name: ACCEPTED } };
const INTRODUCTION = {
  protocolVersion: '2025-11-25',
  capabilities: CAPABILITIES,
  clientInfo: { name: 'host', version: '1' },
};

const methodsOf = (messages: readonly Message[]) =>
  messages.map((message) => ('method' in message ? message.method : 'a response'));
describe('valise connect and what is open while the server becomes one of the other era', () => {
  describe.each([
    ['with a state', { ...INPUT, requestState: 's' }],
    ['without a state', INPUT],
  ])('answers of a host of 2026-07-28, %s', (_, given) => {
    /** A host that was asked by a newer server, which is an older one by now. */
    const asked = async () => {
      const all = between('newer');
      await all.ask(0, 'server/discover', { _meta: ENVELOPE });
      await all.call(1, 'asks', { _meta: ENVELOPE });
      await all.answer('asks', ASKING);
      all.become('older');
      all.sent.length = 0;
      return all;
    };

    it('do not start the call again if they are first to notice', async () => {
      const { sent, call, refuse, answer, answers } = await asked();
      await call(2, 'asks', { ...given, _meta: ENVELOPE });
      await refuse('asks');
      expect(answers(2)).toEqual([{ jsonrpc: '2.0', id: 2, ...OVER }]);
      expect(methodsOf(sent)).toEqual(['tools/call']);
      await call(3, 'plain', { _meta: ENVELOPE });
      await answer('plain', DONE);
      expect(answers(3)).toMatchObject([{ result: COMPLETE }]);
    });

    it('do not start the call again if another call was first', async () => {
      const { sent, call, refuse, answer, answers } = await asked();
      await call(2, 'plain', { _meta: ENVELOPE });
      await refuse('plain');
      await answer('plain', DONE);
      sent.length = 0;
      await call(3, 'asks', { ...given, _meta: ENVELOPE });
      const message = expect.stringMatching(/carried out in part: look before calling again/);
      expect(answers(3)).toEqual([{ jsonrpc: '2.0', id: 3, error: { code: -32602, message } }]);
      expect(sent).toEqual([]);
    });
  });

  it('ends the call whose answer an older host sends to the server that is gone, and meets the new one', async () => {
    const { host, sent, become, call, reply, refuse, answer, answers, question } = await olderHostAsked();
    become('older');
    await reply(question.id);
    sent.length = 0;
    await refuse('asks');
    expect(answers(1)).toEqual([{ jsonrpc: '2.0', id: 1, ...OVER }]);
    expect(methodsOf(sent)).toEqual(['initialize', 'notifications/initialized']);
    await call(2, 'plain');
    await answer('plain', DONE);
    expect(answers(2)).toEqual([{ jsonrpc: '2.0', id: 2, result: DONE }]);
    expect(
      host.filter((message) => 'id' in message && String(message.id).startsWith('valise-retry')),
    ).toEqual([]);
  });

  it('ends a call that was sent once more and asked in, where the server changes again', async () => {
    const { host, become, ask, call, reply, refuse, answer, answers } = between('older');
    await ask(0, 'initialize', INTRODUCTION);
    become('newer');
    await call(1, 'asks');
    await refuse('asks');
    await answer('asks', ASKING);
    become('older');
    await reply((host.at(-1) as Request).id);
    await refuse('asks');
    expect(answers(1)).toEqual([{ jsonrpc: '2.0', id: 1, ...OVER }]);
  });

  describe('what an older server asks a host of its era', () => {
    const asked = async () => {
      const all = between('older');
      await all.ask(0, 'initialize', INTRODUCTION);
      await all.call(1, 'asks');
      all.bridge.fromServer({ jsonrpc: '2.0', id: 7, ...QUESTION });
      expect(all.host.at(-1)).toEqual({ jsonrpc: '2.0', id: 7, ...QUESTION });
      return all;
    };
    const change = async ({ become, call, refuse, answer }: ReturnType<typeof between>) => {
      become('newer');
      await call(2, 'plain');
      await refuse('plain');
      await answer('plain', COMPLETE);
    };

    it('is taken back, and an answer that comes too late swallowed', async () => {
      const all = await asked();
      await change(all);
      expect(all.host).toContainEqual(cancelled(7));
      all.sent.length = 0;
      await all.reply(7);
      expect(all.sent).toEqual([]);
    });

    it('is told from what the next older server asks under the same id', async () => {
      const all = await asked();
      await change(all);
      all.become('older');
      await all.call(3, 'again');
      await all.refuse('again');
      all.bridge.fromServer({ jsonrpc: '2.0', id: 7, ...QUESTION });
      const another = all.host.at(-1) as Request;
      expect(another).toMatchObject(QUESTION);
      all.sent.length = 0;
      await all.reply(7);
      expect(all.sent).toEqual([]);
      await all.reply(another.id);
      expect(all.sent).toEqual([{ jsonrpc: '2.0', id: 7, result: ACCEPTED }]);
    });

    it('is not taken back twice where the server has done so', async () => {
      const all = await asked();
      all.bridge.fromServer({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } });
      await change(all);
      expect(all.host.filter((message) => methodsOf([message])[0] === 'notifications/cancelled')).toEqual([
        cancelled(7),
      ]);
    });
  });

  it('sends nothing of a call that an older host takes back while the new server is met', async () => {
    const { host, sent, become, ask, call, refuseNow, cancel } = between('older');
    await ask(0, 'initialize', INTRODUCTION);
    await call(1, 'slow');
    become('newer');
    sent.length = host.length = 0;
    refuseNow('slow');
    await cancel(1);
    expect(methodsOf(sent)).toEqual(['server/discover']);
    expect(methodsOf(host)).toEqual(['notifications/tools/list_changed']);
  });

  it('forgets no listener that was the first to notice', async () => {
    const { host, sent, become, ask, call, refuse } = between('newer');
    await ask(0, 'server/discover', { _meta: ENVELOPE });
    for (const id of [4, 5])
      await ask(id, 'subscriptions/listen', { notifications: { toolsListChanged: true }, _meta: ENVELOPE });
    const acknowledged = () =>
      methodsOf(host).filter((method) => method === 'notifications/subscriptions/acknowledged');
    for (const round of [1, 2]) {
      become('older');
      await refuse('subscriptions/listen');
      expect(acknowledged()).toHaveLength(2 * round);
      become('newer');
      await call(5 + round, 'plain', { _meta: ENVELOPE });
      sent.length = 0;
      await refuse('plain');
      const listeners = sent.filter((message) => methodsOf([message])[0] === 'subscriptions/listen');
      expect(listeners.map((message) => (message as Request).id)).toEqual([4, 5]);
    }
  });

  it('tells a new server what a host began with that has fallen back', async () => {
    const { sent, bridge, become, ask, call, refuse, answer } = between('older', 'insisting');
    await call(1, 'plain', { _meta: ENVELOPE });
    await answer('plain', DONE);
    await ask(2, 'initialize', INTRODUCTION);
    bridge.fromHost({ jsonrpc: '2.0', method: 'notifications/initialized' });
    become('newer');
    await call(3, 'plain');
    await refuse('plain');
    expect(sent.at(-1)).toMatchObject({ params: { _meta: ENVELOPE } });
    become('older');
    await call(4, 'again');
    sent.length = 0;
    await refuse('again');
    expect(sent[0]).toMatchObject({ method: 'initialize', params: INTRODUCTION });
  });

  it('meets the new server once, where two calls notice in the same moment', async () => {
    const { host, sent, become, ask, call, refuseNow } = between('newer');
    await ask(0, 'server/discover', { _meta: ENVELOPE });
    for (const id of [1, 2]) await call(id, `call ${id}`, { _meta: ENVELOPE });
    await ask(4, 'subscriptions/listen', { notifications: { toolsListChanged: true }, _meta: ENVELOPE });
    become('older');
    sent.length = 0;
    refuseNow('call 1');
    refuseNow('call 2');
    await settled();
    expect(methodsOf(sent)).toEqual([
      'server/discover',
      'initialize',
      'notifications/initialized',
      'tools/call',
      'tools/call',
    ]);
    expect(methodsOf(host).filter((method) => method?.endsWith('acknowledged'))).toHaveLength(1);
  });
});
