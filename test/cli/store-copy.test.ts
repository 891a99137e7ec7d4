import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { openStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { browserIn } from './browser.ts';
import { folder, serveExample, valise, valiseJson } from './valise.ts';

describe('valise store copy', { timeout: 60_000 }, () => {
  it.each([
    ['sealed', generateKey()],
    ['plain', undefined],
  ])('copies every entry of a %s store with the rest of its life', async (_, keys) => {
    const path = await folder();
    const [from, to] = [`sqlite:${join(path, 'from.db')}`, `file:${join(path, 'to.json')}`];
    const before = await openStore(from, { keys });
    for (let count = 0; count < 120; count++) await before.put(`many/${count}`, { count });
    await before.put('ends', 'later', { ttl: 3600 });
    const ends = (await before.get('ends'))?.expiresAt as number;
    await before.close();
    const ran = await valise(['store', 'copy', from, to]);
    expect(ran).toMatchObject({
      code: 0,
      stdout: '121 copied\n',
      stderr: expect.stringContaining('121 entries'),
    });
    const after = await openStore(to, { keys });
    expect((await after.list('many/')).keys).toHaveLength(120);
    expect((await after.get('many/119'))?.value).toEqual({ count: 119 });
    const ended = await after.get('ends');
    expect(ended?.value).toBe('later');
    expect(Math.abs((ended?.expiresAt as number) - ends)).toBeLessThan(1000);
    await after.put('ends', 'now');
    await after.close();
    expect(await valise(['store', 'copy', from, to])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--merge'),
    });
    const merged = await valiseJson(['store', 'copy', from, to, '--merge']);
    expect(merged).toEqual({ copied: 0, skipped: 121 });
    const last = await openStore(to, { keys });
    expect((await last.get('ends'))?.value).toBe('now');
    await last.close();
  });

  it('mixes nothing that one keyring would not open, makes no source, and takes no store twice', async () => {
    const path = await folder();
    const urls = ['a', 'b', 'c'].map((name) => `file:${join(path, name)}`) as [string, string, string];
    for (const [index, url] of urls.entries()) {
      const store = await openStore(url, { keys: index === 0 ? undefined : generateKey() });
      await store.put(url, index);
      await store.close();
    }
    for (const [from, to] of [
      [urls[0], urls[1]],
      [urls[1], urls[0]],
      [urls[1], urls[2]],
    ] as const)
      expect(await valise(['store', 'copy', from, to, '--merge'])).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('not sealed with the same key'),
      });
    for (const [from, to] of [
      [`file:${join(path, 'nope')}`, urls[0]],
      [urls[0], urls[0]],
      [urls[0], `file:${path}/./a`],
      [urls[0], 'memory:'],
    ] as const)
      expect((await valise(['store', 'copy', from, to, '--merge'])).code).toBeGreaterThan(0);
    expect((await readdir(path)).sort()).toEqual(['a', 'b', 'c']);
  });

  it('takes sign-ins along', async () => {
    const path = await folder();
    const env = { DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent', VALISE_BROWSER: await browserIn(path) };
    const { url } = await serveExample(['vault', '--with-auth'], { VALISE_KEYS: generateKey() });
    const [from, to] = [`sqlite:${join(path, 'from.db')}`, `sqlite:${join(path, 'new', 'to.db')}`];
    await valise(['call', url, 'increment', '--store', from], env);
    expect(await valise(['store', 'copy', from, to], env)).toMatchObject({ code: 0 });
    expect((await stat(join(path, 'new', 'to.db.key'))).mode & 0o777).toBe(0o600);
    const next = await valise(['call', url, 'increment', '--store', to], {
      ...env,
      VALISE_BROWSER: '/bin/false',
    });
    expect(next).toMatchObject({ code: 0, stderr: expect.not.stringContaining('Sign in here') });
  });
});
