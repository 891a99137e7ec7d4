import type { Client } from '@modelcontextprotocol/client';
import { describe, expect, it } from 'vitest';
import { answerNewer, answerOlder, call, pinned, serve } from './newer-host.ts';
import { sdkHost } from './sdk-hosts.ts';
import { VALISE } from './valise.ts';

const HOSTS = {
  older: async (url: string) =>
    (await sdkHost('v2', [process.execPath, VALISE, 'connect', url, '--store', 'memory:'])).client,
  newer: pinned,
} satisfies Record<string, (url: string) => Promise<Client>>;
const sums = (client: Client) => Promise.all([1, 2, 3].map((a) => call(client, 'add', { a, b: 1 })));

describe.each(Object.entries(HOSTS))('valise connect with a host of the %s era', (_, connect) => {
  it('continues calls that a server refuses only after it has changed to the older era for another call', async () => {
    const server = await serve(answerNewer());
    const client = await connect(server.url);
    expect(await sums(client)).toEqual(['newer: 2', 'newer: 3', 'newer: 4']);
    const older = answerOlder();
    let go = (): void => {};
    const isBegun = new Promise<void>((resolve) => (go = resolve));
    let refused = 0;
    server.become(async (request, response) => {
      if (request.headers['mcp-session-id'] !== undefined) go();
      else if (request.headers['mcp-method'] === 'tools/call' && ++refused > 1) await isBegun;
      await older(request, response);
    });
    expect(await sums(client)).toEqual(['2', '3', '4']);
    expect(refused).toBe(3);
  });
});
