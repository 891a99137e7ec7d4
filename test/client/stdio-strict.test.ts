import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StdioClientTransport } from '../../src/link/stdio-client.ts';
import { valise } from '../cli/valise.ts';

const strict = fileURLToPath(new URL('strict-server.mjs', import.meta.url));
const info = { name: 'host', version: '1.0.0' };
const command = { command: process.execPath, args: [strict] };

describe('a stdio server that leaves when it is not greeted with initialize', () => {
  it('is reached by a client that knows both eras, in its own', async () => {
    const valise = await openValise({ store: 'memory:' });
    onTestFinished(() => valise.close());
    const client = new Client(info, { versionNegotiation: { mode: 'auto' } });
    onTestFinished(() => client.close());
    const transport = new StdioClientTransport(command);
    await valise.connect(client, transport);
    expect(client.getNegotiatedProtocolVersion()).toBe('2025-11-25');
    const { content } = await client.callTool({ name: 'pid', arguments: {} });
    expect(content).toEqual([{ type: 'text', text: String(transport.pid) }]);
  });

  it('tells a client that wants the newer era only that it has not got it', async () => {
    const valise = await openValise({ store: 'memory:' });
    onTestFinished(() => valise.close());
    const client = new Client(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
    await expect(valise.connect(client, command)).rejects.toThrow('did not offer');
  });

  it('is reached by valise call and list', async () => {
    const target = `stdio:${process.execPath} ${strict}`;
    expect(await valise(['call', target, 'pid', '--store', 'memory:'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\n$/),
    });
    expect((await valise(['list', target, '--store', 'memory:'])).stdout).toMatch(/^pid/m);
  });

  it('has one stderr over both of its lives, and ends where it leaves twice', async () => {
    const script = "console.error('here'); process.stdin.once('data', () => process.exit(1));";
    const twice = { command: process.execPath, args: ['-e', script], stderr: 'pipe' as const };
    const transport = new StdioClientTransport(twice);
    let said = '';
    transport.stderr?.on('data', (chunk) => (said += chunk));
    const client = new Client(info, { versionNegotiation: { mode: 'auto' } });
    await expect(client.connect(transport as never)).rejects.toThrow('closed');
    expect(said).toBe('here\nhere\n');
  });
});
