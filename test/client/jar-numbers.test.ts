import { fileURLToPath } from 'node:url';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { openValise } from 'mcp-valise/client';
import { CORE } from 'mcp-valise/internal';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { Around } from './around.ts';
import { KINDS, type Kind } from './hosts.ts';
import { rawServer } from './rounds-server.ts';

/** Values whose numbers JavaScript does not have, or prints otherwise, and one as they usually are. */
const VALUES = [
  ['id', '9007199254740993'],
  ['price', '{"amount":100.0,"of":[1e400,-0,{"rate":0.1000000000000000055511}]}'],
  ['tiny', '[1E-7,0.00000012,123456789.123456789]'],
  ['text', '"1.0 and 9007199254740993 and \\"1e400\\""'],
  ['plain', '{"n":[1,2.5,-3,1e21]}'.replace('1e21', '1e+21')],
] as const;

const STATE = `{${VALUES.map(([name, text]) => `"${name}": ${text.replaceAll(',', ' , ')}`).join(',')}}`;
// In strings, blanks are not only blanks.
const spaced = (text: string): string => (text.startsWith('"') ? text.replaceAll(',', ' , ') : text);

function clientOf({ major, era }: Kind): ClientV2 {
  const info = { name: 'numbers', version: '1.0.0' };
  if (major === 'v1') return new ClientV1(info) as unknown as ClientV2;
  return new ClientV2(info, {
    versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' },
  });
}

const WAYS = ['a URL', "the SDK's transport"] as const;
const CASES = KINDS.flatMap((kind) =>
  WAYS.flatMap((way) => [true, false].map((json) => ({ ...kind, way, json, body: json ? 'JSON' : 'SSE' }))),
);

describe.each(CASES)(
  'numbers in the jar of a $kind client, over $way and $body',
  ({ way, json, ...kind }) => {
    it('[J-02] [J-08] Numbers are sent back with the text that the server wrote, also after a restart', async () => {
      const key =
        kind.era === 'modern'
          ? (text: string) => `"dev.valise/state":{"server":${text},"session":${text}}`
          : (text: string) =>
              `"modelcontextprotocol.io/state/server":${text},"modelcontextprotocol.io\\/state\\/session":${text}`;
      const server = await rawServer(
        ({ message: { id, method } }) => {
          const more =
            kind.era === 'modern' ? '"resultType":"complete","ttlMs":0,"cacheScope":"private",' : '';
          const result =
            method === 'server/discover'
              ? `{${more}"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"${CORE.serverInfo}":{"name":"raw","version":"1"}}}`
              : `{${more}"content":[],"_meta":{${key(STATE)}}}`;
          const answer = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
          return json ? answer : [answer];
        },
        { json },
      );
      const store = memoryStore();
      const calls: string[] = [];
      for (let process = 0; process < 2; process++) {
        const valise = await openValise({ store, allowLocal: true });
        const client = clientOf(kind);
        const Transport = kind.major === 'v1' ? HttpV1 : HttpV2;
        if (way === 'a URL') await valise.connect(client, server.url, { resume: false });
        else await valise.connect(client, new Transport(server.url) as never);
        await client.callTool({ name: 'one' });
        await client.callTool({ name: 'two' });
        expect(valise.jar.list({ key: 'id', scope: 'server', values: true })).toMatchObject([
          { text: '9007199254740993' },
        ]);
        await client.close();
        await valise.close();
        calls.push(
          ...server
            .heard()
            .filter(({ message }) => message.method === 'tools/call')
            .map(({ text }) => text),
        );
        server.said.length = 0;
      }
      // The first one knows nothing yet; of the second process, also the first one does.
      expect(calls[0]).not.toContain('9007199254740993');
      for (const text of calls.slice(1))
        for (const [name, value] of VALUES) expect(text).toContain(`"${name}":${spaced(value)}`);
      // In session scope, too.
      expect(calls[1]?.split('"id":9007199254740993')).toHaveLength(3);
      await server.close();
    });
  },
);

describe('numbers in the jar over stdio', () => {
  const command = {
    command: process.execPath,
    args: [fileURLToPath(new URL('./exact-server.mjs', import.meta.url)), STATE],
  };
  const call = async (client: ClientV2): Promise<string> => {
    const { content } = await client.callTool({ name: 'x' });
    return (content as { text: string }[])[0]?.text ?? '';
  };

  it.each(KINDS.filter(({ era }) => era === 'legacy'))(
    '[J-02] [J-08] A $kind client sends numbers back over valise.stdio with the text that the server wrote',
    async (kind) => {
      const store = memoryStore();
      for (const isFirst of [true, false]) {
        const valise = await openValise({ store });
        const client = clientOf(kind);
        await valise.connect(client, command);
        const first = await call(client);
        expect(first.includes('9007199254740993')).toBe(!isFirst);
        const second = await call(client);
        for (const [name, value] of VALUES) expect(second).toContain(`"${name}":${spaced(value)}`);
        await client.close();
        await valise.close();
      }
    },
  );

  it('[J-25] Numbers that the transport would change are refused with an event', async () => {
    const valise = await openValise({ store: memoryStore() });
    const refused: string[] = [];
    valise.on('refused', ({ key, reason }) => refused.push(`${key} ${reason}`));
    const client = clientOf(KINDS[1]);
    // A transport around another has no byte edge.
    const around = new Around(new StdioV2(command));
    await valise.connect(client, around, { server: command });
    await call(client);
    const second = await call(client);
    expect(refused.slice(0, 2)).toEqual(['id bad-value', 'price bad-value']);
    expect(second).not.toContain('"id":9');
    expect(second).not.toContain('"price"');
    expect(second).not.toContain('valise-raw');
    expect(second).toContain('"text":');
    await client.close();
    await valise.close();
  });
});
