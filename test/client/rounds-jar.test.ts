import { StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { McpServer } from '@modelcontextprotocol/server';
import { openValise } from 'mcp-valise/client';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Example } from '../../examples/serve.ts';
import { callText, HOSTS } from '../e2e/hosts.ts';
import { askable, stage } from '../e2e/rounds-stage.ts';
import { Around } from './around.ts';

/** A server that has its client carry as much as the test says, and asks one thing. */
function keeping(keys: number, size: number): Example {
  return {
    name: 'keeping',
    build({ McpServer, options }) {
      const valise = createValise({ name: 'keeping', ...options });
      const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });
      const fill = async () => {
        for (let at = 0; at < keys; at++) valise.jar.server.set(`draft${at}`, 'x'.repeat(size));
        return text('filled');
      };
      const ask = valise.flow(async (flow) => {
        const schema = { type: 'object', properties: { name: { type: 'string' } } } as const;
        const { name } = await flow.ask('name', { message: 'Who?', schema });
        const kept = String(valise.jar.server.get(`draft${keys - 1}`)).length;
        return text(`Hello ${name}, ${kept}.`);
      });
      const server = (): McpServer => {
        const made = valise.install(new McpServer({ name: 'keeping', version: '1.0.0' }));
        made.registerTool('fill', {}, fill);
        made.registerTool('ask', {}, ask as never);
        return made;
      };
      return { valise, server };
    },
  };
}

type Over = 'a URL' | "the SDK's own transport" | 'one around that';

describe.each(HOSTS)('a question to a $client client that carries large state, $era', ({ client, era }) => {
  const open = async (keys: number, size: number, over: Over) => {
    const server = await stage({ sdk: 'v2', instances: 1, example: keeping(keys, size) });
    onTestFinished(() => server.close());
    const valise = await openValise({ store: memoryStore(), allowLocal: true });
    const host = askable(client, era, () => ({ action: 'accept', content: { name: 'Ada' } }));
    const url = server.urls[0] as URL;
    const stock = (client === 'v1' ? new HttpV1(url) : new HttpV2(url)) as HttpV2;
    if (over === 'one around that') await valise.connect(host, new Around(stock), { server: url });
    else await valise.connect(host, over === 'a URL' ? url : stock);
    onTestFinished(() => host.close());
    await callText(host, 'fill', {});
    return host;
  };

  it.each([
    ['a URL', 10],
    ["the SDK's own transport", 10],
    ['one around that', 1],
  ] as const)('A question is asked and answered over %s', async (over, keys) => {
    expect(await callText(await open(keys, 5000, over), 'ask', {})).toBe('Hello Ada, 5000.');
  });

  it.skipIf(era === 'modern')(
    'A question that exceeds the limit fails with an error that gives the size of the call',
    async () => {
      const host = await open(10, 5000, 'one around that');
      const said = await callText(host, 'ask', {});
      expect(said).toMatch(
        /^What this flow has to remember is \d{5} bytes long, about \d{5} of them the call itself with the state that its client carries, and no more than 49152 may travel\.$/,
      );
    },
  );
});
