import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { count, openSessionful } from '../client/sessionful.ts';
import { kill, sdkHost } from './sdk-hosts.ts';
import { folder, VALISE } from './valise.ts';

describe.each(['v1', 'v2'] as const)('valise connect for %s hosts that run at the same time', (kind) => {
  it('has a session for each, in which it continues after it was killed', { timeout: 60_000 }, async () => {
    const server = await openSessionful();
    onTestFinished(() => server.close());
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const start = () => sdkHost(kind, [process.execPath, VALISE, 'connect', server.url, ...store]);
    const first = await start();
    const [session] = server.sessions();
    const second = await start();
    expect(server.sessions()).toHaveLength(2);
    expect(await count(first.client)).toBe(1);
    expect(await count(second.client)).toBe(1);
    await kill(first);
    const again = await start();
    expect(await count(again.client)).toBe(2);
    expect(server.heard.at(-1)?.session).toBe(session);
    expect(server.sessions()).toHaveLength(2);
  });
});
