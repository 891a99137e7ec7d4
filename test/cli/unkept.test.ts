import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { valise } from './valise.ts';

const STATE = 'modelcontextprotocol.io/state';

/** A server of the older era that announces nothing of Valise, and sets two keys in each result of a tool. Its port. */
async function openPlain(): Promise<number> {
  const results: Readonly<Record<string, (params: { protocolVersion?: string }) => object>> = {
    initialize: ({ protocolVersion }) => ({
      protocolVersion,
      serverInfo: { name: 'plain', version: '1.0.0' },
      capabilities: { tools: {} },
    }),
    'tools/list': () => ({ tools: [{ name: 'set', inputSchema: { type: 'object' } }] }),
    'tools/call': () => ({
      content: [{ type: 'text', text: 'set' }],
      _meta: { [`${STATE}/server`]: { one: 1 }, [`${STATE}/session`]: { two: 2 } },
    }),
  };
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method, params = {} } = JSON.parse(await text(request));
    if (id === undefined) return void response.writeHead(202).end();
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: results[method]?.(params) ?? {} }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

describe('state of a server that none is kept for, and that announces none', { timeout: 60_000 }, () => {
  it.each([
    ['127.0.0.1', '127.0.0.1 is an address.'],
    ['localhost', 'localhost is this machine.'],
    ['github.io', 'github.io is a public suffix: many owners have names below it.'],
  ])('is said once not to be kept, and why: %s', async (host, why) => {
    const port = await openPlain();
    const to = [`http://${host}:${port}/mcp`, '--resolve', `${host}:${port}:127.0.0.1`];
    const args = ['call', ...to, 'set', '--era', 'legacy', '--store', 'memory:'];
    expect(await valise(args)).toEqual({
      code: 0,
      stdout: 'set\n',
      stderr: `valise: no state is kept for ${host}: ${why} For development, use --allow-local to keep it all the same.\n`,
    });
    expect((await valise([...args, '--allow-local'])).stderr).not.toContain('no state is kept');
  });
});
