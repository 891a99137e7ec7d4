import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import type { Carrier } from '../../src/wire/index.ts';
import { startNginx } from '../services.ts';
import { startHttp } from './example.ts';
import { callText } from './hosts.ts';
import { type Ask, askable, asTheSeed, RESOLVE, RESOLVED } from './rounds-stage.ts';

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** Three processes behind a real balancer; who asked last, and a way to kill it. */
async function cluster(sdk: 'v1' | 'v2', args: readonly string[] = []) {
  const env = { VALISE_KEYS: generateKey() };
  const start = () => startHttp('work-items', ['--sdk', sdk, '--stateless', ...args], env);
  const instances = await Promise.all([start(), start(), start()]);
  for (const instance of instances) ends.push(() => instance.stop('SIGKILL'));
  const nginx = await startNginx({ upstreams: instances.map(({ url }) => url.href), failover: true });
  ends.push(() => nginx.stop());
  const killed: string[] = [];
  let asker = '';
  const watching = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const response = await fetch(url, init);
    const upstream = response.headers.get('x-upstream')?.split(', ').at(-1);
    // Only a POST that brings a stream or a body may have brought a question.
    if (upstream && init?.method === 'POST' && response.status === 200) asker = upstream;
    return response;
  };
  /** Answers only once the instance that asked is dead. */
  const killing =
    (most: number): Ask =>
    async (params) => {
      if (killed.length < most) {
        const instance = instances.find(({ url }) => url.host === asker);
        killed.push(asker);
        await instance?.stop('SIGKILL');
      }
      return asTheSeed(params);
    };
  return { url: new URL('/mcp', nginx.url), watching, killing, killed };
}

describe('[R-12] three processes that share only keys, behind nginx', () => {
  it.each([
    { sdk: 'v1', client: 'v1', era: 'legacy', carrier: 'state' },
    { sdk: 'v2', client: 'v2', era: 'legacy', carrier: 'state' },
    { sdk: 'v1', client: 'v2', era: 'legacy', carrier: 'dependent-shared' },
    { sdk: 'v2', client: 'v1', era: 'legacy', carrier: 'dependent-each' },
    { sdk: 'v2', client: 'v2', era: 'modern', carrier: 'state' },
  ] as const)(
    'a call completes even if every instance that asked was killed before the answer ($sdk server, $client client, $era, $carrier)',
    async ({ sdk, client, era, carrier }) => {
      const { url, watching, killing, killed } = await cluster(sdk);
      const valise = await openValise({ store: memoryStore(), carriers: [carrier as Carrier] });
      const host = askable(client, era, killing(2));
      await valise.connect(host, url, { fetch: watching, resume: false });
      expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
      expect(new Set(killed).size).toBe(2);
      await host.close();
    },
  );

  it.each([
    { sdk: 'v1', client: 'v2' },
    { sdk: 'v2', client: 'v1' },
  ] as const)(
    'a call of a stock client completes too if there is a store for its mail ($sdk server, $client client)',
    async ({ sdk, client }) => {
      const folder = mkdtempSync(join(tmpdir(), 'valise-rounds-'));
      ends.push(async () => rmSync(folder, { recursive: true, force: true }));
      const { url, watching, killing, killed } = await cluster(sdk, ['--store', `sqlite:${folder}/state.db`]);
      const host = askable(client, 'legacy', killing(1));
      const options = { fetch: watching as typeof fetch };
      await host.connect(
        client === 'v1' ? (new HttpV1(url, options) as unknown as HttpV2) : new HttpV2(url, options),
      );
      expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
      expect(killed).toHaveLength(1);
      await host.close();
    },
  );
});
