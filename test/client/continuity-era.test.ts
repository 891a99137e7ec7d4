import { Client } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { answerNewer, answerOlder, call, serve } from '../cli/newer-host.ts';
import { LEGACY_CLIENTS } from './sessionful.ts';

const auto = () => new Client({ name: 'host', version: '1' }, { versionNegotiation: { mode: 'auto' } });

async function hosts(url: string) {
  const store = memoryStore();
  const warnings: string[] = [];
  const start = async (client: Client): Promise<Client> => {
    const valise = await openValise({ store });
    valise.on('warning', ({ what }) => warnings.push(what));
    onTestFinished(async () => {
      await client.close();
      await valise.close();
    });
    await valise.connect(client, url);
    return client;
  };
  return { start, warnings };
}

const ways = [
  { was: 'older', is: 'newer', from: answerOlder, to: answerNewer, before: '3', after: 'newer: 3' },
  { was: 'newer', is: 'older', from: answerNewer, to: answerOlder, before: 'newer: 3', after: '3' },
];
const sum = (client: Client) => call(client, 'add', { a: 1, b: 2 });

describe.each(ways)('a server of the $was era that changes to the $is era', ({ from, to, before, after }) => {
  it('Each call fails with an error that says to connect again, and connecting again works', async () => {
    const server = await serve(from());
    const { start, warnings } = await hosts(server.url);
    const running = await start(auto());
    expect(await sum(running)).toBe(before);
    server.become(to());
    for (const _ of ['first', 'second']) {
      await expect(sum(running)).rejects.toMatchObject({ code: 'other-version' });
      await expect(sum(running)).rejects.toThrow('Connect again');
    }
    expect(await sum(await start(auto()))).toBe(after);
    expect(warnings).toEqual([]);
  });

  it('Each call of a process that resumes another one fails with an error that says to connect again', async () => {
    const server = await serve(from());
    const { start } = await hosts(server.url);
    await (await start(auto())).close();
    server.become(to());
    await expect(sum(await start(auto()))).rejects.toMatchObject({ code: 'other-version' });
    expect(await sum(await start(auto()))).toBe(after);
  });
});

it.each(LEGACY_CLIENTS)('A $kind client continues once the server of its era is back', async ({ make }) => {
  const server = await serve(answerOlder());
  const { start } = await hosts(server.url);
  const client = await start(make());
  server.become(answerNewer());
  await expect(sum(client)).rejects.toMatchObject({ code: 'other-version' });
  server.become(answerOlder());
  expect(await sum(client)).toBe('3');
});
