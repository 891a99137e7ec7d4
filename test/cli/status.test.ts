import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { folder, serveExample, valise, valiseJson } from './valise.ts';

/** Signs in as a person would, only without a browser: follows the sign-in page to its end. */
const BROWSER = `#!/usr/bin/env node
let at = process.argv[2];
let jar = new Map();
for (let hop = 0; hop < 20; hop++) {
  const headers = { cookie: [...jar].map(([name, value]) => name + '=' + value).join('; ') };
  const response = await fetch(at, { redirect: 'manual', headers });
  for (const line of response.headers.getSetCookie()) {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
    jar.set(name, value);
  }
  const next = response.headers.get('location');
  if (!next) break;
  at = new URL(next, at).href;
}
`;

interface Called {
  readonly content: readonly { readonly text: string }[];
}

describe('valise status and logout', { timeout: 120_000 }, () => {
  it('[C-12] signs in once, goes on in the session from process to process, shows it, and signs out', async () => {
    const path = await folder();
    const browser = join(path, 'browser.mjs');
    await writeFile(browser, BROWSER, { mode: 0o755 });
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

  it('refuses to keep tokens where nothing is safe, and tells how to choose', async () => {
    const path = await folder();
    const browser = join(path, 'browser.mjs');
    await writeFile(browser, BROWSER, { mode: 0o755 });
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
