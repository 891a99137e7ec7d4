import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { LeaveOpen, openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { commandOf } from './example.ts';
import { callText } from './hosts.ts';
import { askable, asTheSeed, RESOLVE, RESOLVED } from './rounds-stage.ts';

describe.each([
  { sdk: 'v1', client: 'v1', era: 'legacy' },
  { sdk: 'v1', client: 'v2', era: 'legacy' },
  { sdk: 'v2', client: 'v1', era: 'legacy' },
  { sdk: 'v2', client: 'v2', era: 'legacy' },
  { sdk: 'v2', client: 'v2', era: 'modern' },
] as const)('an SDK $sdk server on stdio and a $client client, $era', ({ sdk, client, era }) => {
  const command = {
    ...commandOf('work-items', '--stdio', '--sdk', sdk),
    env: { VALISE_KEYS: generateKey() },
  };

  it('a stdio server and its client complete the rounds of the example', async () => {
    const valise = await openValise({ store: memoryStore() });
    const host = askable(client, era, asTheSeed);
    await valise.connect(host, command);
    expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
    await host.close();
  });

  it('a call continues if another process of the stdio server gets the answer', async () => {
    const store = memoryStore();
    const before = await openValise({ store });
    const host = askable(client, era, () => {
      throw new LeaveOpen();
    });
    await before.connect(host, command);
    await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toThrow();
    await host.close();

    const valise = await openValise({ store });
    const next = askable(client, era, asTheSeed);
    await valise.connect(next, command);
    const [round] = await valise.pending.list();
    expect(round?.call?.params).toMatchObject({ arguments: RESOLVE });
    const continued = await valise.pending.answer(round!.id);
    expect(continued).toMatchObject({ done: true, result: { content: [{ text: RESOLVED }] } });
    expect(await valise.pending.list()).toEqual([]);
    await next.close();
  });

  it('a stdio server and a stock client complete the rounds of the example', async () => {
    const host = askable(client, era, asTheSeed);
    const spawned = {
      ...command,
      args: [...command.args],
      env: { ...command.env, PATH: process.env['PATH'] as string },
    };
    await host.connect(client === 'v1' ? (new StdioV1(spawned) as unknown as StdioV2) : new StdioV2(spawned));
    expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
    await host.close();
  });
});
