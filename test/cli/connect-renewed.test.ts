import { describe, expect, it } from 'vitest';
import { answerOlder, call, pinned, serve } from './newer-host.ts';
import { sdkHost } from './sdk-hosts.ts';
import { VALISE } from './valise.ts';

describe('valise connect where the server has lost the session', () => {
  it.each(['v1', 'v2'] as const)('asks for what a %s host has subscribed to once more', async (kind) => {
    const server = await serve(answerOlder());
    const told: string[] = [];
    const { client, ask } = await sdkHost(
      kind,
      [process.execPath, VALISE, 'connect', server.url, '--store', 'memory:'],
      { onNotification: (method) => told.push(method) },
    );
    for (const uri of ['memo://one', 'memo://two', 'memo://gone']) await ask('resources/subscribe', { uri });
    await ask('resources/unsubscribe', { uri: 'memo://two' });
    await ask('logging/setLevel', { level: 'warning' });
    server.become(answerOlder());
    expect(await call(client, 'add', { a: 1, b: 1 })).toBe('2');
    await expect.poll(() => call(client, 'touch')).toBe('memo://one,memo://gone');
    await expect.poll(() => call(client, 'shout')).toBe('warning');
    await expect.poll(() => told).toContain('notifications/resources/updated');
    const lists = ['tools', 'prompts', 'resources'].map((kind) => `notifications/${kind}/list_changed`);
    expect(told).toEqual(expect.arrayContaining(lists));
  });

  it('does so for a host of the newer era, too', async () => {
    const server = await serve(answerOlder());
    const told: string[] = [];
    const client = await pinned(server.url, {}, (each) => {
      each.fallbackNotificationHandler = async ({ method }) => void told.push(method);
    });
    await client.listen({ toolsListChanged: true, resourceSubscriptions: ['memo://one'] });
    expect(await call(client, 'touch')).toBe('memo://one');
    server.become(answerOlder());
    expect(await call(client, 'add', { a: 1, b: 1 })).toBe('2');
    await expect.poll(() => call(client, 'touch')).toBe('memo://one');
    await expect.poll(() => told).toContain('notifications/tools/list_changed');
  });
});
