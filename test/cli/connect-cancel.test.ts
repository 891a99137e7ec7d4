import { describe, expect, it } from 'vitest';
import type { Request } from '../../src/wire/index.ts';
import {
  ACCEPTED,
  ASKING,
  between,
  CAPABILITIES,
  cancelled,
  DONE,
  ENVELOPE,
  newerHostAsked,
  olderHostAsked,
  QUESTION,
} from './era-bridge.ts';
import { call, TARGETS } from './newer-host.ts';
import { sdkHost } from './sdk-hosts.ts';
import { VALISE } from './valise.ts';

const NOBODY = { error: { code: -32000, message: 'The host cancelled the call that this was asked in.' } };

describe('valise connect and a call that an older host takes back, at a newer server', () => {
  it('is over where the host is asked in it: the question is taken back, and nothing sent', async () => {
    const { host, sent, cancel, reply, question, takenBack } = await olderHostAsked();
    sent.length = host.length = 0;
    await cancel(1);
    expect(host).toEqual([cancelled(question.id)]);
    expect(takenBack).toMatchObject([{ call: { method: 'tools/call' }, inputRequests: { name: QUESTION } }]);
    await reply(question.id);
    expect(sent).toEqual([]);
    expect(host).toHaveLength(1);
  });

  it('is taken back under the id that the server knows', async () => {
    const { host, sent, cancel, reply, answer, question, takenBack } = await olderHostAsked();
    await reply(question.id);
    const again = sent.at(-1) as Request;
    sent.length = host.length = 0;
    await cancel(1);
    expect(sent).toEqual([cancelled(again.id)]);
    expect(takenBack).toMatchObject([{ call: { method: 'tools/call' }, inputRequests: { name: QUESTION } }]);
    // The server may have asked before it heard of it.
    await answer('asks', ASKING);
    expect(host).toEqual([]);
  });
});

describe('valise connect and a call that an older host takes back, at an older server', () => {
  const asked = async () => {
    const all = between('older');
    await all.ask(0, 'initialize', { capabilities: CAPABILITIES });
    await all.call(1, 'asks');
    all.bridge.fromServer({ jsonrpc: '2.0', id: 77, ...QUESTION });
    all.sent.length = all.host.length = 0;
    return all;
  };

  it('takes the question back at the host, and ends it at the server after the call', async () => {
    const { host, sent, cancel, reply } = await asked();
    await cancel(1);
    expect(host).toEqual([cancelled(77)]);
    expect(sent).toEqual([cancelled(1), { jsonrpc: '2.0', id: 77, ...NOBODY }]);
    await reply(77);
    expect(sent).toHaveLength(2);
  });

  it('takes it back once, where the server does so too', async () => {
    const { host, bridge, cancel } = await asked();
    await cancel(1);
    bridge.fromServer(cancelled(77) as never);
    expect(host).toEqual([cancelled(77)]);
  });

  it('leaves what has been asked in another call, as far as anybody knows', async () => {
    const all = between('older');
    await all.ask(0, 'initialize', { capabilities: CAPABILITIES });
    await all.call(1, 'one');
    await all.call(2, 'other');
    all.bridge.fromServer({ jsonrpc: '2.0', id: 77, ...QUESTION });
    await all.call(3, 'later');
    all.host.length = 0;
    await all.cancel(1);
    await all.cancel(3);
    expect(all.host).toEqual([]);
    await all.cancel(2);
    expect(all.host).toEqual([cancelled(77)]);
  });

  it('leaves what a server asks of the host itself, in no call', async () => {
    const { host, bridge, cancel } = await asked();
    const roots = { jsonrpc: '2.0', id: 78, method: 'roots/list' } as const;
    bridge.fromServer(roots);
    await cancel(1);
    expect(host).toEqual([roots, cancelled(77)]);
  });

  it.each([
    { host: 'v1', way: 'stdio' },
    { host: 'v1', way: 'HTTP' },
    { host: 'v2', way: 'stdio' },
    { host: 'v2', way: 'HTTP' },
  ] as const)('tells a $host host so, at a server of the v1 SDK over $way', async ({ host, way }) => {
    const stop = new AbortController();
    let told = (): void => {};
    const isTold = new Promise<void>((resolve) => (told = resolve));
    const { client, ask } = await sdkHost(
      host,
      [process.execPath, VALISE, 'connect', await TARGETS[way](), '--store', 'memory:'],
      {
        capabilities: CAPABILITIES,
        answers: {
          'elicitation/create': (_, signal) => {
            signal.addEventListener('abort', told);
            stop.abort();
            return new Promise(() => {});
          },
        },
      },
    );
    await expect(ask('tools/call', { name: 'confide' }, { signal: stop.signal })).rejects.toThrow();
    await isTold;
    expect(await call(client, 'confided')).toBe(
      'cancelled: MCP error -32000: The host cancelled the call that this was asked in.',
    );
  });
});

describe('valise connect and a call that a host of 2026-07-28 takes back', () => {
  const answers = { inputResponses: { name: ACCEPTED } };
  /** A newer host that was asked at a server of its era, during call 1. */
  const asked = async (asking: typeof ASKING | Omit<typeof ASKING, 'requestState'> = ASKING) => {
    const all = between('newer');
    await all.ask(0, 'server/discover', { _meta: ENVELOPE });
    await all.call(1, 'asks', { _meta: ENVELOPE });
    await all.answer('asks', asking);
    return all;
  };
  const QUESTIONS = { call: { method: 'tools/call' }, inputRequests: { name: QUESTION } };

  it('is over where it is asked in it', async () => {
    const { cancel, takenBack } = await asked();
    await cancel(2);
    expect(takenBack).toEqual([]);
    await cancel(1);
    expect(takenBack).toMatchObject([QUESTIONS]);
  });

  const { requestState: _, ...stateless } = ASKING;
  it.each([
    ['with a state', ASKING, { ...answers, requestState: 's' }],
    ['without a state', stateless, answers],
  ])('is over where the server has the answers, %s', async (_name, asking, given) => {
    const { call, cancel, sent, takenBack } = await asked(asking);
    await call(2, 'other', { requestState: 'another', ...answers, _meta: ENVELOPE });
    await cancel(2);
    await call(3, 'asks', { ...given, _meta: ENVELOPE });
    expect(takenBack).toEqual([]);
    await cancel(3);
    expect(takenBack).toMatchObject([QUESTIONS]);
    expect(sent.at(-1)).toEqual(cancelled(3));
  });

  it('is not over twice', async () => {
    const { call, answer, cancel, takenBack } = await asked();
    await call(2, 'asks', { ...answers, requestState: 's', _meta: ENVELOPE });
    await answer('asks', { ...DONE, resultType: 'complete' });
    await cancel(1);
    await cancel(2);
    expect(takenBack).toEqual([]);
  });

  it('is taken back at an older server also while the host is asked in it', async () => {
    const { sent, cancel, call, answered, answers: heard } = await newerHostAsked();
    sent.length = 0;
    await cancel(1);
    expect(sent).toEqual([cancelled(1), { jsonrpc: '2.0', id: 77, ...NOBODY }]);
    await call(2, 'asks', answered);
    expect(heard(2)).toMatchObject([{ error: { message: expect.stringMatching(/not under way/) } }]);
  });
});
