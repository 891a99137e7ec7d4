import { CancelledNotificationSchema as CANCELLED } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import type { Request } from '../../src/wire/index.ts';
import {
  ACCEPTED,
  ASKING,
  between,
  CAPABILITIES,
  DONE,
  ENVELOPE,
  newerHostAsked,
  olderHostAsked,
  QUESTION,
  REPLACED,
  settled,
} from './era-bridge.ts';
import { answerNewer, answerOlder, call, pinned, serve } from './newer-host.ts';
import { sdkHost } from './sdk-hosts.ts';
import { VALISE } from './valise.ts';

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
    // As a rule what was to bring the answer is known to have broken off before the host comes back with its own.
    await expect(call(client, 'greet')).rejects.toThrow(
      /(broke off|was replaced) .*look before calling again/,
    );
  });

  it.each(['v1', 'v2'] as const)('ends the call of a %s host that is the first to notice', async (kind) => {
    const server = await serve(answerNewer());
    const { client } = await sdkHost(
      kind,
      [process.execPath, VALISE, 'connect', server.url, '--store', 'memory:'],
      {
        capabilities: CAPABILITIES,
        answers: {
          'elicitation/create': () => {
            server.become(answerOlder());
            return { action: 'accept', content: { name: 'Ada' } };
          },
        },
      },
    );
    await expect(call(client, 'who')).rejects.toThrow(/server was replaced .* look before calling again/);
    expect(await call(client, 'add', { a: 1, b: 1 })).toBe('2');
  });

  it('ends the call of a host of 2026-07-28 that is the first to notice', async () => {
    const server = await serve(answerNewer());
    const client = await pinned(server.url, { capabilities: CAPABILITIES }, (host) =>
      host.setRequestHandler('elicitation/create', async () => {
        server.become(answerOlder());
        return { action: 'accept', content: { name: 'Ada' } };
      }),
    );
    await expect(call(client, 'who')).rejects.toThrow(/server was replaced .* look before calling again/);
    expect(await call(client, 'add', { a: 1, b: 1 })).toBe('2');
  });

  it('takes back what an older server has asked a host of its era', async () => {
    const server = await serve(answerOlder());
    let asked = (): void => {};
    const isAsked = new Promise<void>((resolve) => (asked = resolve));
    const told: unknown[] = [];
    const { client } = await sdkHost(
      'v1',
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
    client.setNotificationHandler(
      CANCELLED as never,
      (notification: unknown) => void told.push(notification),
    );
    const ended = expect(call(client, 'greet')).rejects.toThrow(/broke off .*look before calling again/);
    await isAsked;
    server.become(answerNewer());
    expect(await call(client, 'add', { a: 1, b: 1 })).toBe('newer: 2');
    await expect.poll(() => told).toHaveLength(1);
    await ended;
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
