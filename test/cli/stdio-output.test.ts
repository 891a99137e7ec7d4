import { fileURLToPath } from 'node:url';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { openValise } from 'mcp-valise/client';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StdioClientTransport } from '../../src/edge/stdio-client.ts';
import { isGone, LINGERING, lingering } from './lingering.ts';
import { valise } from './valise.ts';

const ODD = fileURLToPath(new URL('odd-server.mjs', import.meta.url));
const MAJORS = [
  { kind: 'v1', Client: ClientV1 },
  { kind: 'v2', Client: ClientV2 },
];

/** A client of a script, its errors, and the script's process. */
async function start(Client: typeof ClientV1 | typeof ClientV2, args: string[]) {
  const own = await openValise({ store: 'memory:' });
  onTestFinished(() => own.close());
  const command = { command: process.execPath, args, grace: 0.2, stderr: 'ignore' } as const;
  const transport = new StdioClientTransport(command);
  onTestFinished(() => transport.close());
  const client = new Client({ name: 'host', version: '1.0.0' }) as ClientV2;
  const errors: unknown[] = [];
  client.onerror = (error) => void errors.push(error);
  await own.connect(client, transport);
  return { client, errors, pid: transport.pid as number };
}

describe('a stdio server that sends a line longer than any that is taken', { timeout: 60_000 }, () => {
  it.each(MAJORS)(
    'is ended, and so is the call whose answer it may have been ($kind)',
    async ({ Client }) => {
      const { client, errors, pid } = await start(Client, [ODD]);
      await expect(client.callTool({ name: 'overlong', arguments: {} })).rejects.toThrow('Connection closed');
      expect(isGone(pid)).toBe(true);
      expect(errors).toMatchObject([{ code: 'too-large' }]);
    },
  );

  it('ends valise call with an error that says so', async () => {
    const { code, stderr } = await valise(['call', `stdio:node ${ODD}`, 'overlong', '--store', 'memory:']);
    expect(code).toBe(1);
    expect(stderr).toContain('sent a line of more than 67108864 bytes');
  });
});

describe('a stdio server that answers with what is no message of MCP', { timeout: 60_000 }, () => {
  it.each([
    '{"result":null}',
    '{"result":"x"}',
    '{"result":[]}',
    '{}',
    '{"error":"boom"}',
    '{"error":{"message":"no code"}}',
    '{"jsonrpc":"1.0","result":{}}',
  ])('ends the call that it answers, and no other: %s', async (answer) => {
    const { client } = await start(ClientV2, [ODD]);
    await expect(client.callTool({ name: `raw ${answer}`, arguments: {} })).rejects.toMatchObject({
      code: -32_603,
      message: expect.stringContaining('no message of MCP'),
    });
    expect(await client.callTool({ name: 'first', arguments: {} })).toMatchObject({ content: [{}] });
  });
});

describe('a stdio server that closes its output and lives on', { timeout: 20_000 }, () => {
  it.each(MAJORS)('is ended, and so are the calls that wait for it ($kind)', async ({ Client }) => {
    const { client, errors, pid } = await start(Client, [LINGERING, 'deaf']);
    const call = () => client.callTool({ name: 'close', arguments: {} });
    await expect(call()).rejects.toThrow('Connection closed');
    expect(isGone(pid)).toBe(true);
    expect(errors).toMatchObject([{ code: 'not-connected' }]);
    await expect(call()).rejects.toThrow(/not connected/i);
  });

  it.each(['v1', 'v2'])('ends valise call with an error that says so (%s)', async (sdk) => {
    const args = ['call', lingering(), 'close', '--store', 'memory:', '--sdk', sdk];
    const { code, stderr } = await valise(args);
    expect(code).toBe(1);
    expect(stderr).toContain('closed its output');
  });
});
