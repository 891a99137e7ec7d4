import { once } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { openStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { keyOf } from '../../src/client/identity/target.ts';
import { browserIn } from './browser.ts';
import { folder, serveExample, valise, valiseJson } from './valise.ts';

interface Called {
  readonly content: readonly { readonly text: string }[];
}

describe('valise status and logout', { timeout: 120_000 }, () => {
  it('[C-12] signs in once, continues in the session from process to process, shows it, and signs out', async () => {
    const path = await folder();
    const browser = await browserIn(path);
    const env = { VALISE_KEYS: generateKey(), VALISE_BROWSER: browser };
    const { url } = await serveExample(['vault', '--with-auth'], env);
    const store = ['--store', `sqlite:${join(path, 'state.db')}`];
    const increment = async () =>
      (await valiseJson<Called>(['call', url, 'increment', ...store], env)).content[0]?.text;
    const first = Number(/\d+/.exec((await increment()) ?? '')?.[0]);
    expect(Number(/\d+/.exec((await increment()) ?? '')?.[0])).toBe(first + 1);
    // Nobody answers a sign-in page now: what is kept must be enough.
    const again = await valise(['call', url, 'increment', ...store], {
      ...env,
      VALISE_BROWSER: '/bin/false',
    });
    expect(again).toMatchObject({ code: 0, stderr: expect.not.stringContaining('Sign in here') });
    const { connections } = await valiseJson<{ connections: { signedIn: boolean; session?: string }[] }>(
      ['status', url, ...store],
      env,
    );
    expect(connections).toMatchObject([{ signedIn: true, session: expect.any(String) }]);
    expect((await valise(['status', ...store], env)).stdout).toContain(url);
    expect(await valise(['logout', url, ...store], env)).toMatchObject({
      code: 0,
      stdout: 'signed out and forgotten\n',
    });
    expect((await valise(['status', ...store], env)).stdout).toBe('Nothing is kept of any connection.\n');
    expect((await valise(['logout', url, ...store], env)).code).toBe(1);
  });

  it('says of which connection nothing is kept, where others are', async () => {
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const { url } = await serveExample(['vault']);
    await valise(['call', url, 'increment', ...store]);
    const other = 'https://other.example.com/mcp';
    expect(await valise(['status', url, ...store])).toMatchObject({ stdout: expect.stringContaining(url) });
    expect(await valise(['status', other, ...store])).toMatchObject({
      code: 0,
      stdout: `Nothing is kept of a connection with ${other}.\n`,
    });
  });

  it('does not use or mention the keychain if no sign-in was sealed with its key', async () => {
    const env = { DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent' };
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const { url } = await serveExample(['vault']);
    await valise(['call', url, 'increment', ...store], env);
    for (const target of [[], [url], ['https://other.example.com/mcp']])
      expect(await valise(['status', ...target, ...store], env)).toMatchObject({ code: 0, stderr: '' });
  });

  it('shows what is kept, whatever times are in it', async () => {
    const url = `file:${join(await folder(), 'state.json')}`;
    const kept = await openStore(url);
    const of = (target: string) => ({ target, principal: '' });
    for (const [target, savedAt, expiresAt] of [
      ['https://a.example.com/mcp', 9e15, 1e23],
      ['https://b.example.com/mcp', 0, 1000],
    ] as const) {
      const tokens = { access_token: 'x', token_type: 'Bearer', expiresAt };
      await kept.put(keyOf('credentials', of(target)), { ...of(target), tokens });
      const snapshot = { era: 'legacy', introduction: {}, protocolVersion: '2025-11-25', savedAt };
      await kept.put(`${keyOf('connection', of(target))}/legacy`, { ...of(target), ...snapshot });
    }
    await kept.close();
    const args = ['status', '--store', url, '--insecure-plaintext'];
    const { code, stdout, stderr } = await valise(args);
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.not.stringContaining('Invalid') });
    expect(stdout).toMatch(/^https:\/\/a\.example\.com\/mcp +- +2025-11-25 +- +yes +-$/m);
    expect(stdout).toMatch(/^https:\/\/b\.example\.com\/mcp .* 1970-01-01 00:00:01Z$/m);
    const { connections } = await valiseJson<{ connections: object[] }>(args);
    expect(connections).toMatchObject([{ savedAt: null }, { tokenExpiresAt: '1970-01-01T00:00:01.000Z' }]);
    expect(connections[0]).not.toHaveProperty('tokenExpiresAt');
  });

  it('says where the tokens could not be revoked', async () => {
    const path = await folder();
    const env = { VALISE_KEYS: generateKey(), VALISE_BROWSER: await browserIn(path) };
    const { url, child } = await serveExample(['vault', '--with-auth'], env);
    const store = ['--store', `sqlite:${join(path, 'state.db')}`];
    await valise(['call', url, 'increment', ...store], env);
    child.kill('SIGKILL');
    await once(child, 'close');
    const { code, stdout } = await valise(['logout', url, ...store], env);
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('could not be reached'),
    });
    expect(stdout).not.toContain('signed out');
    expect((await valise(['status', ...store], env)).stdout).toBe('Nothing is kept of any connection.\n');
  });

  it('[C-12] signs in with no setup and no keychain, beside keys of a server, and the next shell is signed in', async () => {
    const home = await folder();
    // As the pages for servers say, and no keychain can be reached from here.
    const server = { VALISE_KEYS: generateKey() };
    const { url } = await serveExample(['vault', '--with-auth'], server);
    const machine = { HOME: home, DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent' };
    const env = { ...server, ...machine, VALISE_BROWSER: await browserIn(home) };
    expect(await valise(['call', url, 'increment'], env)).toMatchObject({ code: 0 });
    for (const name of ['state.db', 'state.db.key'])
      expect((await stat(join(home, '.valise', name))).mode & 0o777).toBe(0o600);
    expect((await stat(join(home, '.valise'))).mode & 0o777).toBe(0o700);
    const later = { ...machine, VALISE_BROWSER: '/bin/false' };
    const again = await valise(['call', url, 'increment'], later);
    expect(again).toMatchObject({ code: 0, stderr: expect.not.stringContaining('Sign in here') });
    for (const command of ['jar', 'sessions', 'pending'])
      expect(await valise([command], { ...server, ...later })).toMatchObject({ code: 0, stderr: '' });
    expect(await valiseJson(['status'], later)).toMatchObject({ connections: [{ signedIn: true }] });
    expect(await valise(['logout', url], later)).toMatchObject({
      code: 0,
      stdout: 'signed out and forgotten\n',
      stderr: '',
    });
  });

  it('seals with VALISE_CLIENT_KEYS or the keys of a file, on every command that looks into the store', async () => {
    const path = await folder();
    const keyFile = join(path, 'client.key');
    await valise(['keys', 'generate', '--out', keyFile]);
    const store = ['--store', `sqlite:${join(path, 'state.db')}`];
    const { url } = await serveExample(['vault']);
    const keyed = [...store, '--key-file', keyFile];
    expect(await valise(['call', url, 'increment', ...keyed])).toMatchObject({ code: 0 });
    const [, keys = ''] = /VALISE_KEYS=(\S+)/.exec(await readFile(keyFile, 'utf8')) ?? [];
    for (const words of [
      ['jar'],
      ['status'],
      ['sessions'],
      ['pending'],
      ['list', url],
      ['call', url, 'increment'],
    ]) {
      expect(await valise([...words, ...keyed])).toMatchObject({ code: 0 });
      expect(await valise([...words, ...store], { VALISE_CLIENT_KEYS: keys })).toMatchObject({ code: 0 });
    }
    expect(await valise(['jar', ...store], { VALISE_KEYS: keys })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/sealed.*VALISE_CLIENT_KEYS.*--key-file/),
    });
  });

  it('keeps tokens as plain text where that is chosen, and looks after them without choosing it again', async () => {
    const path = await folder();
    const { url } = await serveExample(['vault', '--with-auth'], { VALISE_KEYS: generateKey() });
    const store = ['--store', `sqlite:${join(path, 'state.db')}`];
    const env = { VALISE_BROWSER: await browserIn(path), DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent' };
    expect(await valise(['call', url, 'increment', '--insecure-plaintext', ...store], env)).toMatchObject({
      code: 0,
    });
    // What was chosen to be kept is looked after without choosing it again.
    expect(await valiseJson(['status', ...store], env)).toMatchObject({ connections: [{ signedIn: true }] });
    expect(await valise(['logout', url, ...store], env)).toMatchObject({
      code: 0,
      stdout: 'signed out and forgotten\n',
    });
    expect(await valiseJson(['status', ...store], env)).toEqual({ connections: [] });
  });
});
