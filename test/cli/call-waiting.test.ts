import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { describe, expect, it, onTestFinished } from 'vitest';
import { VALISE } from './valise.ts';

const memory = ['--store', 'memory:', '--era', 'legacy'];

/** A server whose tool opens a stream and takes its time; `call` resolves once it is called. */
async function openSlow(): Promise<{ readonly url: string; readonly call: Promise<ServerResponse> }> {
  let called: (response: ServerResponse) => void = () => {};
  const call = new Promise<ServerResponse>((resolve) => (called = resolve));
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method, params } = JSON.parse(await text(request)) as {
      id?: number;
      method: string;
      params: { protocolVersion?: string };
    };
    if (id === undefined) return void response.writeHead(202).end();
    if (method === 'tools/call') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      return called(response);
    }
    const { protocolVersion } = params;
    const serverInfo = { name: 'slow', version: '1.0.0' };
    const tools = [{ name: 'slow', inputSchema: { type: 'object' } }];
    const result =
      method === 'tools/list' ? { tools } : { protocolVersion, serverInfo, capabilities: { tools: {} } };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, call };
}

describe('a call whose answer takes long', { timeout: 60_000 }, () => {
  it.each(['v1', 'v2'])(
    'says what it waits for, and fails once the answer can no longer arrive (%s)',
    async (sdk) => {
      const { url, call } = await openSlow();
      const child = spawn(process.execPath, [VALISE, 'call', url, 'slow', '--sdk', sdk, ...memory]);
      onTestFinished(() => void child.kill('SIGKILL'));
      let said = '';
      const waits = new Promise<void>((resolve) =>
        child.stderr.on('data', (chunk) => {
          said += chunk;
          if (said.includes('\n')) resolve();
        }),
      );
      const ended = once(child, 'close');
      const response = await call;
      await waits;
      expect(said).toMatch(/^valise: still waiting for slow to answer \(\d+ s\)\n$/);
      response.destroy();
      expect((await ended)[0]).toBe(1);
      expect(said).toContain('broke off before the call was answered');
      expect(said).toContain('look before calling again');
    },
  );

  it('fails through valise connect as well', async () => {
    const { url, call } = await openSlow();
    const client = new Client({ name: 'host', version: '1.0.0' });
    onTestFinished(() => client.close());
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: [VALISE, 'connect', url, ...memory] }),
    );
    const result = client.callTool({ name: 'slow' });
    (await call).end();
    await expect(result).rejects.toThrow('broke off before the call was answered');
  });
});
