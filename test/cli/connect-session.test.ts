import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { sdkHost } from './sdk-hosts.ts';
import { folder, serveExample, VALISE, valiseJson } from './valise.ts';

describe.each(['v1', 'v2', 'v2 auto'] as const)('valise connect --session new for a %s host', (kind) => {
  it('gives each host process a session of its own, which ends with it', { timeout: 60_000 }, async () => {
    const { url } = await serveExample(['notebook'], { VALISE_KEYS: generateKey() });
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const command = [process.execPath, VALISE, 'connect', url, '--session', 'new', ...store] as const;
    const start = async () => {
      const { client } = await sdkHost(kind, [...command]);
      const call = async (name: string, args = {}) => {
        const { content } = await client.callTool({ name, arguments: args });
        return (content[0] as { text: string }).text;
      };
      return { client, call };
    };
    const one = await start();
    const other = await start();
    await one.call('notebook_append', { text: 'mine' });
    await one.call('notebook_append', { text: 'too' });
    await other.call('notebook_append', { text: 'theirs' });
    expect(await one.call('notebook_read')).toBe('mine\ntoo');
    expect(await other.call('notebook_read')).toBe('theirs');
    await one.client.close();
    const again = await start();
    expect(await again.call('notebook_read')).not.toContain('mine');
    // Nobody can come back to it, so nothing of it is kept.
    expect(await valiseJson(['sessions', ...store])).toEqual({ sessions: [] });
  });
});

describe.each(['v1', 'v2'] as const)('valise connect without --session for a %s host', (kind) => {
  it("has the transport's session stand in where the server wants one, as without the bridge", async () => {
    const { url } = await serveExample(['notebook'], { VALISE_KEYS: generateKey() });
    for (const target of [url, `stdio:${process.execPath} ${VALISE} example notebook --stdio`]) {
      const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
      const { client } = await sdkHost(kind, [process.execPath, VALISE, 'connect', target, ...store]);
      for (const text of ['one', 'two'])
        await client.callTool({ name: 'notebook_append', arguments: { text } });
      expect(await client.callTool({ name: 'notebook_read', arguments: {} })).toMatchObject({
        content: [{ text: 'one\ntwo' }],
      });
      await client.close();
    }
  });
});
