import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it, onTestFinished } from 'vitest';
import { signIn } from '../client/vault.ts';
import { folder, serveExample, VALISE, valise } from './valise.ts';

const NO_KEYCHAIN = { DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent' };

/** A call at a server with sign-in, on a machine whose user has the browser elsewhere. */
async function call(...more: string[]) {
  const { url } = await serveExample(['vault', '--with-auth'], { VALISE_KEYS: generateKey() });
  const args = ['call', url, 'increment', '--store', `sqlite:${join(await folder(), 'state.db')}`];
  const env = { ...process.env, ...NO_KEYCHAIN, VALISE_BROWSER: '/bin/false' };
  const child = spawn(process.execPath, [VALISE, ...args, ...more], { env });
  onTestFinished(() => void child.kill('SIGKILL'));
  const output = text(child.stdout);
  const closed = once(child, 'close');
  const said = hear(child);
  const page = new URL((await said(/^Sign in here: (\S+)$/m))[1] as string);
  return { args, child, output, closed, said, page };
}

/** Waits until a program has said this on stderr. */
function hear(child: ChildProcess): (words: RegExp) => Promise<RegExpExecArray> {
  let heard = '';
  child.stderr?.on('data', (chunk) => (heard += chunk));
  return (words) =>
    new Promise((resolve) => {
      const look = (): void => {
        const found = words.exec(heard);
        if (found) resolve(found);
      };
      look();
      child.stderr?.on('data', look);
    });
}

/** Where a browser on another machine ends: at an address of its own 127.0.0.1, where nothing answers. */
const endOf = (page: URL): Promise<URL> =>
  signIn(page, { until: page.searchParams.get('redirect_uri') as string });

describe('a sign-in without a browser on the machine', { timeout: 60_000 }, () => {
  it('takes the address that the user pastes, and no other', async () => {
    const { args, child, output, closed, said, page } = await call('--no-browser');
    const back = await endOf(page);
    const other = new URL(back);
    other.searchParams.set('state', 'of-another');
    child.stdin.write('nonsense\n');
    await said(/not an address/);
    child.stdin.write(`https://evil.example.com/callback${back.search}\n`);
    await said(/does not begin with http:\/\/127\.0\.0\.1:\d+\/callback/);
    child.stdin.write(`${other.href}\n`);
    await said(/belongs to another sign-in/);
    // The input stays open, as a terminal does.
    child.stdin.write(`\n  ${back.href} \n`);
    expect(await closed).toEqual([0, null]);
    expect(await output).toBe('1\n');
    expect(await valise(args, NO_KEYCHAIN)).toMatchObject({ code: 0, stdout: '2\n' });
  });

  it('still hears a browser that comes back by itself', async () => {
    const { output, closed, page } = await call('--no-browser');
    await signIn(page);
    expect(await closed).toEqual([0, null]);
    expect(await output).toBe('1\n');
  });

  it('fails where the input ends before', async () => {
    const { child, closed, said } = await call('--no-browser');
    child.stdin.end();
    expect(await closed).toEqual([1, null]);
    await said(/The input has ended.*--no-browser/);
  });

  it('says no where the user has said no', async () => {
    const { child, closed, said, page } = await call('--no-browser');
    const back = new URL(page.searchParams.get('redirect_uri') as string);
    back.searchParams.set('state', page.searchParams.get('state') as string);
    back.searchParams.set('error', 'access_denied');
    child.stdin.write(`${back.href}\n`);
    expect(await closed).toEqual([1, null]);
    await said(/did not sign you in: access_denied/);
  });
});

describe('the port that a sign-in comes back to', { timeout: 60_000 }, () => {
  it('is the one that was chosen', async () => {
    const probe = createServer().listen(0, '127.0.0.1');
    await once(probe, 'listening');
    const { port } = probe.address() as AddressInfo;
    await new Promise((closed) => probe.close(closed));
    const { output, closed, page } = await call('--redirect-port', String(port));
    expect(page.searchParams.get('redirect_uri')).toBe(`http://127.0.0.1:${port}/callback`);
    await signIn(page);
    expect(await closed).toEqual([0, null]);
    expect(await output).toBe('1\n');
  });

  it.each(['0', '65536', 'x'])('is not %s', async (port) => {
    const ran = await valise(['call', 'http://127.0.0.1:9/mcp', 'x', '--redirect-port', port]);
    expect(ran).toMatchObject({ code: 2, stderr: expect.stringContaining('is not a port') });
  });
});
