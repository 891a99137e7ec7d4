import { generateKey } from 'mcp-valise/seal';
import { createValise } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { MAJORS } from './majors.ts';

describe.each(MAJORS)('a response ($major)', ({ McpServer, Memory }) => {
  it('a response is sent outside of its async context over HTTP, so that Node does not retain the request', async () => {
    const valise = createValise({ name: 'test', keys: generateKey() });
    const inside = () => {
      try {
        return Boolean(valise.jar.session);
      } catch {
        return false;
      }
    };
    const [client, transport] = Memory.createLinkedPair();
    const seen: unknown[] = [];
    const send = transport.send.bind(transport);
    transport.send = (message: never, options: never) => {
      seen.push(['sending', inside()]);
      return send(message, options);
    };
    const server = valise.install(new McpServer({ name: 'test', version: '1.0.0' }));
    server.server.fallbackRequestHandler = async () => {
      seen.push(['handler', inside()]);
      return {};
    };
    await server.connect(transport);
    const answer = new Promise((resolve) => {
      client.onmessage = resolve;
    });
    await client.start();
    const overHttp = { requestInfo: { headers: {} } };
    transport.onmessage?.({ jsonrpc: '2.0', id: 5, method: 'example/work' }, overHttp as never);
    await answer;
    expect(seen).toEqual([
      ['handler', true],
      ['sending', false],
    ]);
  });
});
