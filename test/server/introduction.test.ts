import { WebStandardStreamableHTTPServerTransport as HttpV1 } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { WebStandardStreamableHTTPServerTransport as HttpV2 } from '@modelcontextprotocol/server';
import { createValise } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Meta, Result } from '../../src/wire/index.ts';
import { MAJORS } from './majors.ts';
import { textOf } from './raw-client.ts';
import { sessionOf } from './state-tool.ts';

const CLIENT = 'dev.valise/client';
const introduction = {
  protocolVersion: '2025-11-25',
  capabilities: { extensions: { 'dev.valise/state': {} } },
};

describe.each(MAJORS)('an older client at a stateless server ($major)', ({ major, McpServer }) => {
  const valise = createValise({ name: 'test', jar: { session: { color: { plain: true } } } });

  /** Calls a tool that sets state and says what `_meta` it sees, each time at a server of its own. */
  async function call(_meta: Meta | undefined): Promise<Result> {
    const server = valise.install(new McpServer({ name: 'test', version: '1.0.0' }));
    server.registerTool('paint', { inputSchema: z.object({}) }, async (_, extra) => {
      const { _meta: v1, mcpReq } = extra as unknown as { _meta?: Meta; mcpReq?: { _meta?: Meta } };
      valise.jar.session.set('color', 'red');
      return { content: [{ type: 'text', text: JSON.stringify(v1 ?? mcpReq?._meta ?? null) }] };
    });
    const transport = new (major === 'v1' ? (HttpV1 as unknown as typeof HttpV2) : HttpV2)({
      enableJsonResponse: true,
    });
    await server.connect(transport);
    const params = { name: 'paint', arguments: {}, ...(_meta && { _meta }) };
    const response = await transport.handleRequest(
      new Request('http://localhost/mcp', {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2025-11-25',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
      }),
    );
    return ((await response.json()) as { result: Result }).result;
  }

  it.each([
    ['text', JSON.stringify(introduction)],
    ['an object', introduction],
  ])('an introduction that is %s identifies a client, and no handler sees it', async (_, said) => {
    for (const _again of [1, 2]) {
      const result = await call({ [CLIENT]: said });
      expect(sessionOf(result)).toEqual({ color: 'red' });
      expect(textOf(result)).toBe('null');
    }
    expect(textOf(await call({ [CLIENT]: said, progressToken: 7 }))).toBe('{"progressToken":7}');
  });

  it.each([
    ['other capabilities', JSON.stringify({ ...introduction, capabilities: {} })],
    ['text that is not JSON', '{"protocolVersion":'],
    ['JSON that is not an object', '"dev.valise/state"'],
    ['a number', 7],
  ])('an introduction of %s does not identify a client', async (_, said) => {
    expect(sessionOf(await call({ [CLIENT]: JSON.stringify(introduction) }))).toEqual({ color: 'red' });
    const result = await call({ [CLIENT]: said });
    expect(result['isError']).toBe(true);
    expect(sessionOf(result)).toBeUndefined();
  });

  it('a long introduction identifies a client too', async () => {
    const long = {
      ...introduction,
      capabilities: { ...introduction.capabilities, experimental: { x: { y: 'z'.repeat(9000) } } },
    };
    expect(sessionOf(await call({ [CLIENT]: JSON.stringify(long) }))).toEqual({ color: 'red' });
  });
});
