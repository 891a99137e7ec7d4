import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { expect, it, onTestFinished } from 'vitest';
import { folder, VALISE } from './valise.ts';

/** A stock v1 server whose tool asks on the session's stream, and which takes its time over `initialized`. */
async function serve(): Promise<string> {
  const server = new McpServer({ name: 'stock', version: '1.0.0' });
  server.registerTool('ask', {}, async () => {
    const { action } = await server.server.elicitInput({
      message: 'Sure?',
      requestedSchema: { type: 'object', properties: { sure: { type: 'boolean' } } },
    });
    return { content: [{ type: 'text', text: action }] };
  });
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID });
  await server.connect(transport);
  const http = createServer(async (request, response) => {
    const body = request.method === 'POST' ? (JSON.parse(await text(request)) as unknown) : undefined;
    const isIntroduced = (body as { method?: string } | undefined)?.method === 'notifications/initialized';
    if (isIntroduced) await new Promise((resolve) => setTimeout(resolve, 100));
    await transport.handleRequest(request, response, body);
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  onTestFinished(async () => {
    http.closeAllConnections();
    http.close();
    await once(http, 'close');
  });
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
}

it('valise connect answers what a stock server asks in the first call of a host, sent without a pause', async () => {
  const store = `sqlite:${join(await folder(), 'state.db')}`;
  const child = spawn(process.execPath, [VALISE, 'connect', await serve(), '--store', store], {
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  onTestFinished(async () => {
    const gone = once(child, 'close');
    child.stdin.end();
    await gone;
  });
  const send = (message: object): void =>
    void child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  send({
    id: 0,
    method: 'initialize',
    params: {
      protocolVersion: '2025-06-18',
      capabilities: { elicitation: {} },
      clientInfo: { name: 'raw', version: '1' },
    },
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const message = JSON.parse(line) as { id?: number; method?: string; result?: object };
    if (message.method === 'elicitation/create')
      send({ id: message.id, result: { action: 'accept', content: { sure: true } } });
    else if (message.id === 0) {
      send({ method: 'notifications/initialized' });
      send({ id: 1, method: 'tools/call', params: { name: 'ask', arguments: {} } });
    } else if (message.id === 1) {
      expect(message.result).toMatchObject({ content: [{ text: 'accept' }] });
      return;
    }
  }
  throw new Error('the bridge ended');
});
