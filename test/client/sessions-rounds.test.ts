import { Client } from '@modelcontextprotocol/client';
import { type ClientSession, type ClientValise, openValise, SessionGoneError } from 'mcp-valise/client';
import { CORE, inputRequired, NAMES, type Request, type Result } from 'mcp-valise/internal';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { TransportLike } from '../../src/core/instrument.ts';
import { sessionOf } from './sessions-host.ts';

/** A transport whose answers come when a test says so, and from where it says so. */
class Scripted implements TransportLike {
  readonly calls: Request[] = [];
  onmessage?: TransportLike['onmessage'];
  onclose?: TransportLike['onclose'];
  #made = 0;

  async start(): Promise<void> {}

  async send(message: Request): Promise<void> {
    if (message.method === 'server/discover')
      this.answer(message, {
        supportedVersions: ['2026-07-28'],
        capabilities: { tools: {}, sessions: {} },
        _meta: { [CORE.serverInfo]: { name: 'scripted', version: '1.0.0' } },
      });
    else if (message.method === 'tools/call') this.calls.push(message);
    else if (message.id !== undefined)
      this.answer(message, { session: { sessionId: `sess-${++this.#made}` } });
  }

  answer({ id }: Request, result: Result): void {
    const complete = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
    this.onmessage?.({ jsonrpc: '2.0', id, result: { ...complete, ...result } });
  }

  forget({ id }: Request): void {
    const error = { code: NAMES.modern.code.sessionNotFound, message: 'Session not found' };
    this.onmessage?.({ jsonrpc: '2.0', id, error });
  }

  async close(): Promise<void> {
    this.onclose?.();
  }
}

const question = {
  method: 'elicitation/create',
  params: { message: 'Who?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } },
};

describe.each([{ requestState: 'context' }, {}])('rounds of 2026-07-28, with %o', (context) => {
  const round = inputRequired({ inputRequests: { who: question }, ...context } as never);
  let transport: Scripted;
  let valise: ClientValise;
  let client: Client;
  beforeEach(async () => {
    transport = new Scripted();
    valise = await openValise({ store: memoryStore() });
    client = new Client(
      { name: 'test', version: '1.0.0' },
      { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
    );
    client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: {} }));
    await valise.connect(client, transport);
  });
  afterEach(async () => {
    await client.close();
    await valise.close();
  });
  const call = () => client.callTool({ name: 'greet', arguments: {} });
  const sent = () => transport.calls.map(({ params }) => sessionOf(params?._meta ?? {})?.sessionId);
  const come = (count: number) => vi.waitFor(() => expect(transport.calls).toHaveLength(count));

  it.each<{ readonly from: string; readonly inside: (other: ClientSession, work: () => void) => void }>([
    { from: 'nowhere', inside: (_, work) => work() },
    { from: 'another session', inside: (other, work) => other.run(work) },
  ])('Rounds continue in the session of their call if answers come from $from', async ({ inside }) => {
    const [a, b, other] = await Promise.all([1, 2, 3].map(() => valise.sessions(client).create()));
    const going = [a!.run(call), call(), b!.run(call)];
    await come(3);
    expect(sent()).toEqual([a!.id, undefined, b!.id]);
    for (const rounds of [1, 2]) {
      // The latest call is answered first: only its course tells where it belongs.
      const before = transport.calls.slice(-3);
      const expected = sent().slice(-3).reverse();
      for (const [at, asked] of [...before].reverse().entries()) {
        inside(other!, () => transport.answer(asked, round));
        await come(rounds * 3 + at + 1);
      }
      expect(sent().slice(-3)).toEqual(expected);
    }
    for (const asked of transport.calls.slice(-3))
      inside(other!, () => transport.answer(asked, { content: [] }));
    await Promise.all(going);
  });

  it('[S-14] Rounds do not restart in another session, whatever the server says about them', async () => {
    const session = await valise.sessions(client).create({ onGone: 'recreate' });
    const going = session.run(call).catch((error: unknown) => error);
    await come(1);
    // Before it has asked anything, it may be sent again.
    transport.forget(transport.calls[0]!);
    await come(2);
    transport.answer(transport.calls[1]!, round);
    await come(3);
    transport.forget(transport.calls[2]!);
    expect(await going).toBeInstanceOf(SessionGoneError);
    expect(sent()).toEqual(['sess-1', 'sess-2', 'sess-2']);
    expect(await valise.pending.list()).toEqual([]);
  });
});
