import { LeaveOpen, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { startHttp } from './example.ts';
import { type AnyClient, callText, makeTransport } from './hosts.ts';
import { askable, asTheSeed, RESOLVE, RESOLVED, stage } from './rounds-stage.ts';

const PAIRS = (['v1', 'v2'] as const).flatMap((sdk) =>
  (['v1', 'v2'] as const).flatMap((client) =>
    (['state', 'dependent-shared', 'dependent-each'] as const).map((carrier) => ({ sdk, client, carrier })),
  ),
);

describe.each(PAIRS)(
  'an SDK $sdk server with sessions of the transport and a $client client, by $carrier',
  ({ sdk, client, carrier }) => {
    const open = async (url: URL, host: AnyClient, store = memoryStore(), resume = false) => {
      const valise = await openValise({ store, carriers: [carrier] });
      await valise.connect(host, url, { resume });
      return { valise, store };
    };

    it('a server with transport sessions and its client complete the rounds of the example', async () => {
      const server = await stage({ sdk, instances: 1, stateless: false });
      const host = askable(client, 'legacy', asTheSeed);
      await open(server.urls[0] as URL, host);
      for (let count = 0; count < 2; count++)
        expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
      await host.close();
      await server.close();
    });

    it.each([
      { session: 'the same session', resume: true },
      { session: 'another session', resume: false },
    ])('a question that is left open is answered in the next process, in $session', async ({ resume }) => {
      const server = await stage({ sdk, instances: 1, stateless: false });
      const url = server.urls[0] as URL;
      const host = askable(client, 'legacy', () => {
        throw new LeaveOpen();
      });
      const { store } = await open(url, host, undefined, resume);
      await expect(callText(host, 'update_work_item', RESOLVE)).rejects.toMatchObject({
        data: { pending: expect.any(String) },
      });
      await host.close();
      const next = askable(client, 'legacy', asTheSeed);
      const { valise } = await open(url, next, store, resume);
      const [round] = await valise.pending.list();
      expect(await valise.pending.answer(round!.id)).toMatchObject({
        done: true,
        result: { content: [{ text: RESOLVED }] },
      });
      await next.close();
      await server.close();
    });
  },
);

it.each([
  { edge: 'an edge', args: [], announces: true },
  { edge: 'no edge', args: ['--no-edge'], announces: false },
])(
  'a server with $edge announces correctly whether it carries its questions',
  async ({ args, announces }) => {
    const server = await startHttp('greeter', args);
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'me', version: '1' },
    };
    const response = await fetch(server.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
    });
    const text = await response.text();
    expect(text).toContain('"serverInfo"');
    expect(text.includes('dev.valise/rounds')).toBe(announces);
    await server.stop('SIGTERM');
  },
);

it.each(['v1', 'v2'] as const)(
  'a server with transport sessions asks a stock client too (SDK %s)',
  async (sdk) => {
    const server = await stage({ sdk, instances: 1, stateless: false });
    const host = askable(sdk, 'legacy', asTheSeed);
    await host.connect(makeTransport({ client: sdk, era: 'legacy' } as never, server.urls[0] as URL));
    expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
    await host.close();
    await server.close();
  },
);
