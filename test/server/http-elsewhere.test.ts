import { createMcpHandler } from '@modelcontextprotocol/server';
import { generateKey } from 'mcp-valise/seal';
import { createValise, type ServerValise } from 'mcp-valise/server';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Wire } from './flow-peer.ts';
import { build, call, HEADERS, initialize } from './http-stage.ts';
import { MAJORS } from './majors.ts';

const keys = generateKey();

interface Instance {
  readonly valise: ServerValise;
  readonly warnings: string[];
  readonly fetch: (message: object | undefined, headers?: Record<string, string>) => Promise<Response>;
}

/** An instance of one server, without a store. */
const instance = (): Instance => {
  const warnings: string[] = [];
  const valise = createValise({
    name: 'test',
    keys,
    events: { warning: ({ what, next }) => warnings.push(`${what} ${next}`) },
  });
  const handler = valise.http(createMcpHandler(() => build(valise, MAJORS[1])));
  const fetch: Instance['fetch'] = (message, headers = {}) =>
    handler.fetch(
      new Request('http://127.0.0.1/mcp', {
        method: message ? 'POST' : 'GET',
        headers: { ...HEADERS, 'mcp-protocol-version': '2025-11-25', ...headers },
        ...(message && { body: JSON.stringify(message) }),
      }),
    );
  return { valise, warnings, fetch };
};

/** Asks over an instance; the question, its event's id, and the session's header. */
const ask = async ({ fetch }: Instance) => {
  const begun = await fetch(initialize({ elicitation: {} }));
  const session = { 'mcp-session-id': begun.headers.get('mcp-session-id') as string };
  const asked = await fetch(call('ask'), session);
  const reader = (asked.body as ReadableStream<Uint8Array>).getReader();
  let read = '';
  while (!/^data: .+\n\n/m.test(read)) read += Buffer.from((await reader.read()).value ?? []).toString();
  const question = JSON.parse(/^data: (.+)$/m.exec(read)?.[1] ?? '') as Wire;
  const event = /^id: (.+)$/m.exec(read)?.[1] ?? '';
  const answer = {
    jsonrpc: '2.0',
    id: question.id,
    result: { action: 'accept', content: { name: 'Ada' } },
  };
  return { session, answer, event, reader };
};

const dataIn = (text: string): Wire[] =>
  [...text.matchAll(/^data: (.+)$/gm)].map(([, data]) => JSON.parse(data as string) as Wire);

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

describe('instances that share keys and no store', () => {
  it('an instance without a shared store refuses an answer that another instance waits for, and a warning says why', async () => {
    const [first, other] = [instance(), instance()];
    await vi.advanceTimersByTimeAsync(2000);
    const { answer, session, reader } = await ask(first);
    const refused = await other.fetch(answer, session);
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({
      error: { code: -32603, message: expect.stringContaining('another instance') },
    });
    expect(other.warnings).toEqual([
      expect.stringMatching(/share no store.*Give createValise a store that all instances share/),
    ]);
    await reader.cancel();
  });

  it('an instance without a shared store ends the call of a client that comes to it for the result', async () => {
    const [first, other] = [instance(), instance()];
    await vi.advanceTimersByTimeAsync(2000);
    const { session, event, reader } = await ask(first);
    const stream = await other.fetch(undefined, { ...session, 'last-event-id': event });
    expect(dataIn(await stream.text())).toEqual([
      { jsonrpc: '2.0', id: call('ask').id, error: expect.objectContaining({ code: -32603 }) },
    ]);
    expect(other.warnings).toHaveLength(1);
    await reader.cancel();
  });

  it('an instance without a shared store ends the stream of a client that can resume within seconds', async () => {
    const first = instance();
    await vi.advanceTimersByTimeAsync(2000);
    const { reader } = await ask(first);
    let ended = false;
    const end = (async () => {
      while (!(await reader.read()).done);
      ended = true;
    })();
    await vi.advanceTimersByTimeAsync(6000);
    await end;
    expect(ended).toBe(true);
  });

  it('a new process accepts the answer to a question of the process that it replaced', async () => {
    const { answer, session, event, reader } = await ask(instance());
    await reader.cancel();
    await vi.advanceTimersByTimeAsync(2000);
    const next = instance();
    expect((await next.fetch(answer, session)).status).toBe(202);
    const stream = await next.fetch(undefined, { ...session, 'last-event-id': event });
    const [message] = dataIn(await stream.text());
    expect(message?.['result'].content[0].text).toBe('hello Ada');
    expect(next.warnings).toEqual([]);
  });
});

describe('a route that takes no GET', () => {
  it('a warning reports a missing GET route if a client does not come back to resume', async () => {
    const only = instance();
    const { reader } = await ask(only);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(only.warnings).toContainEqual(expect.stringMatching(/No GET request.*Route GET and DELETE/));
    await reader.cancel();
  });

  it('no warning reports a missing GET route if there was a GET', async () => {
    const only = instance();
    const { reader, session } = await ask(only);
    await (await only.fetch(undefined, session)).body?.cancel();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(only.warnings).not.toContainEqual(expect.stringContaining('No GET request'));
    await reader.cancel();
  });
});
