import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StdioClientTransport } from '../../src/edge/stdio-client.ts';
import { valise } from '../cli/valise.ts';

const strict = fileURLToPath(new URL('strict-server.mjs', import.meta.url));
const info = { name: 'host', version: '1.0.0' };
const command = { command: process.execPath, args: [strict] };

describe('a stdio server that exits if the first message is not initialize', () => {
  it('A client of both eras reaches the server in its own era', async () => {
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

  it('A client of only the newer era gets an error that says the server does not have it', async () => {
    const valise = await openValise({ store: 'memory:' });
    onTestFinished(() => valise.close());
    const client = new Client(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
    await expect(valise.connect(client, command)).rejects.toThrow('did not offer');
  });

  it('valise call and valise list reach the server', async () => {
    const target = `stdio:${process.execPath} ${strict}`;
    expect(await valise(['call', target, 'pid', '--store', 'memory:'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\n$/),
    });
    expect((await valise(['list', target, '--store', 'memory:'])).stdout).toMatch(/^pid/m);
  });

  it('The transport has one stderr for both starts, and connect() fails if the server exits twice', async () => {
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
