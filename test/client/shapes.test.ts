import { setFlagsFromString } from 'node:v8';
import { Client as ClientV2, InMemoryTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { McpServer } from '@modelcontextprotocol/server';
import { openValise } from 'mcp-valise/client';
import { expect, it } from 'vitest';

it.each([
  ['v1', ClientV1],
  ['v2', ClientV2],
])(
  'sends the requests of a %s client as objects of one kind, which is what makes them fast to read',
  async (_, Client) => {
    setFlagsFromString('--allow-natives-syntax');
    const isSame = new Function('a', 'b', 'return %HaveSameMap(a, b)') as (a: object, b: object) => boolean;
    const valise = await openValise({ store: 'memory:' });
    const [near, far] = InMemoryTransport.createLinkedPair();
    await new McpServer({ name: 'test', version: '1.0.0' }).connect(far);
    const sent: object[] = [];
    const { onmessage } = far;
    far.onmessage = (message, extra) => {
      sent.push(message);
      onmessage?.(message, extra);
    };
    const client = new Client({ name: 'test', version: '1.0.0' });
    await valise.connect(client, near);
    for (let count = 0; count < 120; count++) await client.ping();
    const latest = sent.slice(-20);
    expect(latest.every((each) => isSame(each, latest[0] as object))).toBe(true);
    await client.close();
    await valise.close();
  },
);
