import { describe, expect, it } from 'vitest';
import { answerNewer, answerOlder, call, pinned, serve } from './newer-host.ts';
import { sdkHost } from './sdk-hosts.ts';
import { VALISE } from './valise.ts';

const sums = (client: Parameters<typeof call>[0]) =>
  Promise.all([1, 2, 3].map((a) => call(client, 'add', { a, b: 1 })));
const OLDER = ['2', '3', '4'];
const NEWER = ['newer: 2', 'newer: 3', 'newer: 4'];

describe('valise connect before a server that becomes one of the other era', () => {
  it.each(['v1', 'v2', 'v2 auto'] as const)('continues with a %s host, and back', async (kind) => {
    const server = await serve(answerOlder());
    const told: string[] = [];
    const { client, ask } = await sdkHost(
      kind,
      [process.execPath, VALISE, 'connect', server.url, '--store', 'memory:'],
      { onNotification: (method) => told.push(method) },
    );
    await ask('resources/subscribe', { uri: 'memo://one' });
    await ask('logging/setLevel', { level: 'warning' });
    expect(await sums(client)).toEqual(OLDER);
    for (const _ of ['once', 'twice']) {
      server.become(answerNewer());
      told.length = 0;
      expect(await sums(client)).toEqual(NEWER);
      expect(await call(client, 'log')).toBe('warning');
      await expect.poll(() => told).toContain('notifications/tools/list_changed');
      server.become(answerOlder());
      expect(await sums(client)).toEqual(OLDER);
      await expect.poll(() => call(client, 'touch')).toBe('memo://one');
      await expect.poll(() => call(client, 'shout')).toBe('warning');
    }
  });

  it('continues a call that is refused only after another one has been sent again', async () => {
    const server = await serve(answerOlder());
    const { client } = await sdkHost('v2', [
      process.execPath,
      VALISE,
      'connect',
      server.url,
      '--store',
      'memory:',
    ]);
    expect(await sums(client)).toEqual(OLDER);
    const newer = answerNewer();
    let go = (): void => {};
    const isAgain = new Promise<void>((resolve) => (go = resolve));
    let refused = 0;
    server.become(async (request, response) => {
      if (request.headers['mcp-method'] === 'tools/call') go();
      const isCall = request.method === 'POST' && request.headers['mcp-session-id'] !== undefined;
      if (isCall && ++refused > 1) await isAgain;
      await newer(request, response);
    });
    expect(await sums(client)).toEqual(NEWER);
  });

  it('continues with a host that speaks only 2026-07-28, and back', async () => {
    const server = await serve(answerNewer());
    const client = await pinned(server.url);
    expect(await sums(client)).toEqual(NEWER);
    for (const _ of ['once', 'twice']) {
      server.become(answerOlder());
      expect(await sums(client)).toEqual(OLDER);
      server.become(answerNewer());
      expect(await sums(client)).toEqual(NEWER);
    }
  });
});
