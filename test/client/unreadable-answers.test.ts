import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { askable } from '../e2e/rounds-stage.ts';
import { rawServer } from './rounds-server.ts';

describe.each(['v1', 'v2'] as const)('a %s client', (client) => {
  it.each([
    ['cut off', '{"jsonrpc":"2.0","id":"x","result":{"sess'],
    ['no JSON', '<html>'],
    ['no message', '{"hello":"world"}'],
  ])('A request of Valise itself fails with a typed error if the response is %s', async (_, text) => {
    const server = await rawServer(({ message }) => (message.id === undefined ? undefined : text), {
      json: true,
      capabilities: { sessions: {} },
    });
    onTestFinished(() => server.close());
    const valise = await openValise({ store: memoryStore() });
    onTestFinished(() => valise.close());
    const host = askable(client, 'legacy', () => ({ action: 'decline' }));
    onTestFinished(() => host.close());
    await valise.connect(host, server.url, { resume: false });
    await expect(valise.sessions(host).create()).rejects.toMatchObject({
      name: 'ValiseError',
      code: 'request-failed',
      message: expect.stringContaining("The server's answer to sessions/create is not a JSON-RPC message."),
    });
  });
});
