import { createMcpHandler } from '@modelcontextprotocol/server';
import { createValise } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Result } from '../../src/wire/index.ts';
import { MAJORS } from './majors.ts';
import { textOf } from './raw-client.ts';
import { counting } from './state-tool.ts';

const keys = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';

describe('stateless HTTP', () => {
  const authInfo = (sub: string) => ({ token: sub, clientId: 'app', scopes: [], extra: { sub } });

  function endpoint(
    store: Store | undefined,
    version = '2026-07-28',
    warning = (_: { readonly next: string }): void => {},
  ) {
    const valise = createValise({ name: 'test', keys, store, events: { warning } });
    const handler = createMcpHandler(() => {
      const server = valise.install(new MAJORS[1].McpServer({ name: 'test', version: '1.0.0' }));
      server.registerTool('work', { inputSchema: z.object({}) }, async () => ({
        content: [{ type: 'text', text: JSON.stringify(counting(valise.jar)) }],
      }));
      return server;
    });
    return async (method: string, params: object, auth?: ReturnType<typeof authInfo>) => {
      const _meta = {
        'io.modelcontextprotocol/protocolVersion': version,
        'io.modelcontextprotocol/clientCapabilities': {},
        'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1.0.0' },
      };
      const response = await handler.fetch(
        new Request('http://localhost/mcp', {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
            'mcp-protocol-version': version,
            'mcp-method': method,
            ...('name' in params && { 'mcp-name': String(params.name) }),
          },
          body: JSON.stringify({
            jsonrpc: '2.0',
            id: 1,
            method,
            params: { ...params, ...(version > '2026' && { _meta }) },
          }),
        }),
        auth && { authInfo: auth },
      );
      const text = (await response.text()).replace(/^event:.*\ndata: /, '');
      return { status: response.status, body: JSON.parse(text) as { result: Result } };
    };
  }

  const work = { name: 'work', arguments: {} };

  it('stateless HTTP keeps both scopes for the verified principal', async () => {
    const post = endpoint(memoryStore());
    const count = async (sub: string) => textOf((await post('tools/call', work, authInfo(sub))).body.result);
    expect([await count('ann'), await count('ann'), await count('bob')]).toEqual(['[1,1]', '[2,2]', '[1,1]']);
  });

  it.each([
    ['2025-11-25', /neither a transport session nor a verified principal.*sessionIdGenerator.*authInfo/],
    [
      '2026-07-28',
      /neither a transport session nor a verified principal.*store it\. Verify who asks \(authInfo/,
    ],
  ])(
    'set throws with advice over stateless HTTP if clients cannot be identified (%s)',
    async (version, words) => {
      const advice: string[] = [];
      const post = endpoint(memoryStore(), version, ({ next }) => advice.push(next));
      const { body } = await post('tools/call', work);
      expect(`${textOf(body.result)} ${advice.join()}`).toMatch(words);
    },
  );

  it('stateless HTTP still answers unknown methods with 404', async () => {
    const post = endpoint(memoryStore());
    expect((await post('no/such', {}, authInfo('ann'))).status).toBe(404);
    expect((await post('tools/call', work, authInfo('ann'))).status).toBe(200);
  });
});
