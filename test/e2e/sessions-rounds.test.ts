import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { type ClientValise, openValise } from 'mcp-valise/client';
import { describe, expect, it, onTestFinished } from 'vitest';
import { generateKey } from '../../src/seal/index.ts';

const greeter = fileURLToPath(new URL('./greeter.ts', import.meta.url));

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
  const args = ['--import', 'tsx', greeter, '--stdio'];
  const env = { PATH: process.env['PATH'] ?? '', VALISE_KEYS: keys };
  await valise.connect(client, valise.stdio({ command: process.execPath, args, env }));
  onTestFinished(() => client.close());
  return client;
}

async function call(client: Client, name: string): Promise<string> {
  const { content } = (await client.callTool({ name, arguments: {} })) as { content: { text: string }[] };
  return content[0]?.text ?? '';
}

describe('a call over stdio that asks, on 2026-07-28', () => {
  it('goes on in its own session, or in none, whatever brought the question in', async () => {
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
});
