import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { callText } from './hosts.ts';
import { askable, asTheSeed, dialogue, RESOLVE, RESOLVED, stage } from './rounds-stage.ts';

describe.each([
  { sdk: 'v1', client: 'v1', era: 'legacy' },
  { sdk: 'v1', client: 'v2', era: 'legacy' },
  { sdk: 'v2', client: 'v1', era: 'legacy' },
  { sdk: 'v2', client: 'v2', era: 'legacy' },
  { sdk: 'v2', client: 'v2', era: 'modern' },
] as const)('an SDK $sdk server on three instances and our $client client, $era', ({ sdk, client, era }) => {
  it('[R-12][R-14] resolves the bug of the example, each round on another instance', async () => {
    const { urls, fetch, seen, close } = await stage({ sdk });
    const valise = await openValise({ store: memoryStore() });
    const host = askable(client, era, asTheSeed);
    await valise.connect(host, valise.http(urls[0] as URL, { fetch, resume: false }));
    expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
    expect(dialogue(seen).map(({ instance }) => instance)).toEqual(expect.arrayContaining([0, 1, 2]));
    await host.close();
    await close();
  });
});
