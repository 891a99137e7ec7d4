import { once } from 'node:events';
import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { browserIn } from './browser.ts';
import { folder, serveExample, valise, valiseJson } from './valise.ts';

interface Called {
  readonly content: readonly { readonly text: string }[];
}

describe('valise status and logout', { timeout: 120_000 }, () => {
  it('[C-12] signs in once, goes on in the session from process to process, shows it, and signs out', async () => {
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

  it('refuses to keep tokens where nothing is safe, and tells how to choose', async () => {
    const path = await folder();
    const browser = await browserIn(path);
    const { url } = await serveExample(['vault', '--with-auth'], { VALISE_KEYS: generateKey() });
    const store = ['--store', `sqlite:${join(path, 'state.db')}`];
    // No keychain can be reached from here.
    const env = { VALISE_BROWSER: browser, DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent' };
    expect(await valise(['call', url, 'increment', ...store], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--insecure-plaintext'),
    });
    expect(await valise(['call', url, 'increment', '--insecure-plaintext', ...store], env)).toMatchObject({
      code: 0,
    });
  });
});
