import { StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { callText } from './hosts.ts';
import { askable, asTheSeed, dialogue, RESOLVE, RESOLVED, stage } from './rounds-stage.ts';

const stock = (client: 'v1' | 'v2', url: URL, options: { fetch?: typeof fetch }): HttpV2 =>
  client === 'v1' ? (new HttpV1(url, options) as unknown as HttpV2) : new HttpV2(url, options);

describe.each([
  { sdk: 'v1', client: 'v1', era: 'legacy' },
  { sdk: 'v1', client: 'v2', era: 'legacy' },
  { sdk: 'v2', client: 'v1', era: 'legacy' },
  { sdk: 'v2', client: 'v2', era: 'legacy' },
  { sdk: 'v2', client: 'v2', era: 'modern' },
] as const)(
  'an SDK $sdk server without sessions and a stock $client client, $era',
  ({ sdk, client, era }) => {
    it('a server without sessions asks a stock client and continues, each time on another instance', async () => {
      const { urls, fetch, seen, close } = await stage({ sdk, options: { store: memoryStore() } });
      const host = askable(client, era, asTheSeed);
      await host.connect(stock(client, urls[0] as URL, { fetch: fetch as never }));
      expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
      const messages = dialogue(seen).map(({ message }) => message);
      for (const message of messages) expect(message).not.toHaveProperty('state');
      await host.close();
      await close();
    });

    it('a single instance can ask a stock client without a store', async () => {
      const { urls, close } = await stage({ sdk, instances: 1 });
      const host = askable(client, era, asTheSeed);
      await host.connect(stock(client, urls[0] as URL, {}));
      expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
      await host.close();
      await close();
    });

    it('a call of a stock client completes even if the instance that asked is gone before the answer', async () => {
      const { urls, fetch, seen, stop, close } = await stage({ sdk, options: { store: memoryStore() } });
      const host = askable(client, era, async (params) => {
        await stop(seen.at(-1)?.instance as number);
        return asTheSeed(params);
      });
      await host.connect(stock(client, urls[0] as URL, { fetch: fetch as never }));
      expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
      await host.close();
      await close();
    });
  },
);
