import { AsyncLocalStorage } from 'node:async_hooks';
import { Client } from '@modelcontextprotocol/client';
import { type ClientValise, LeaveOpen, openValise } from 'mcp-valise/client';
import { NAMES } from 'mcp-valise/wire';
import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { generateKey } from '../../src/seal/index.ts';
import { child } from '../child.ts';

const greeter = child(new URL('./greeter.ts', import.meta.url));

/** A client of 2026-07-28 that answers by itself: there the SDK goes on with a call from where its response came in. */
async function connect(valise: ClientValise, keys: string): Promise<Client> {
  const client = new Client(
    { name: 'test', version: '1.0.0' },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
  );
  client.setRequestHandler('elicitation/create', async () => ({
    action: 'accept',
    content: { name: 'Ada' },
  }));
  const args = [greeter, '--stdio'];
  const env = { PATH: process.env['PATH'] ?? '', VALISE_KEYS: keys };
  await valise.connect(client, { command: process.execPath, args, env });
  onTestFinished(() => client.close());
  return client;
}

async function call(client: Client, name: string): Promise<string> {
  const { content } = (await client.callTool({ name, arguments: {} })) as { content: { text: string }[] };
  return content[0]?.text ?? '';
}

describe('a call over stdio that asks, on 2026-07-28', () => {
  it('a call that asks continues in its own session, or in none, whichever context delivers the question', async () => {
    const valise = await openValise({ store: 'memory:' });
    const keys = generateKey();
    const first = await connect(valise, keys);
    const one = await valise.sessions(first).create();
    expect(await one.run(() => call(first, 'greet_gated'))).toBe(`Hello Ada of ${one.id}, 1.`);
    // What comes over this connection comes in the course of the first session.
    const second = await one.run(() => connect(valise, keys));
    const other = await valise.sessions(second).create();
    expect(await other.run(() => call(second, 'greet_gated'))).toBe(`Hello Ada of ${other.id}, 1.`);
    expect(await call(second, 'greet')).toMatch(/^Hello Ada of nowhere, 1\.$/);
  });

  describe('a call whose session was replaced', () => {
    const forget = (client: Client, sessionId: string) => {
      const { session, method } = NAMES.modern;
      const params = { _meta: { [session]: { sessionId } } };
      return client.request({ method: method.delete, params } as never, z.looseObject({}) as never);
    };
    const stage = async () => {
      const valise = await openValise({ store: 'memory:' });
      const client = await connect(valise, generateKey());
      const session = await valise.sessions(client).create({ onGone: 'recreate' });
      const before = session.id;
      await forget(client, before);
      return { valise, client, session, before };
    };

    it('a call whose session was replaced continues in the new session, in the async context of its caller', async () => {
      const { client, session, before } = await stage();
      const caller = new AsyncLocalStorage<string>();
      const greeted = await caller.run('me', () =>
        session.run(async () => {
          const first = await call(client, 'greet_gated');
          return [first, await call(client, 'greet_gated'), caller.getStore()];
        }),
      );
      expect(session.id).not.toBe(before);
      expect(greeted).toEqual([`Hello Ada of ${session.id}, 1.`, `Hello Ada of ${session.id}, 2.`, 'me']);
      expect(await call(client, 'greet')).toBe('Hello Ada of nowhere, 1.');
    });

    it('a call whose session was replaced names its pending question, which is answered in the new session', async () => {
      const { valise, client, session } = await stage();
      client.setRequestHandler('elicitation/create', async () => {
        throw new LeaveOpen();
      });
      const left = await session
        .run(() => call(client, 'greet_gated'))
        .catch((error: { data?: { pending?: string } }) => error.data?.pending);
      const [round] = await valise.pending.list();
      expect(round?.session?.id).toBe(session.id);
      expect(left).toBe(round?.id);
      const answer = { action: 'accept', content: { name: 'Ada' } };
      expect(await valise.pending.answer(left as string, answer)).toMatchObject({
        result: { content: [{ text: `Hello Ada of ${session.id}, 1.` }] },
      });
    });
  });
});
