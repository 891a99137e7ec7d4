import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it, onTestFinished } from 'vitest';
import { browserIn } from './browser.ts';
import { folder, serveExample, VALISE, valise } from './valise.ts';
import { wiretap } from './wiretap.ts';

const INFO = { name: 'host', version: '1.0.0' };

const HOSTS = {
  v1: () => new ClientV1(INFO) as unknown as ClientV2,
  v2: () => new ClientV2(INFO),
  'v2 auto': () => new ClientV2(INFO, { versionNegotiation: { mode: 'auto' } }),
};

describe.each(['v1', 'v2', 'v2 auto'] as const)(
  'valise connect for a host (%s) that cannot sign in',
  (major) => {
    it('signs in at the first start, and continues in the session after it was killed', {
      timeout: 60_000,
    }, async () => {
      const path = await folder();
      const keys = { VALISE_KEYS: generateKey() };
      const { url } = await serveExample(['vault', '--with-auth'], keys);
      const { resolve, taken } = await wiretap(url);
      const args = [VALISE, 'connect', url, ...resolve, '--store', `sqlite:${join(path, 'state.db')}`];
      const start = async (browser: string) => {
        const env = { ...(process.env as Record<string, string>), ...keys, VALISE_BROWSER: browser };
        const settings = { command: process.execPath, args, env, stderr: 'ignore' as const };
        const transport = major === 'v1' ? new StdioV1(settings) : new StdioV2(settings);
        const client = HOSTS[major]();
        await client.connect(transport as StdioV2);
        onTestFinished(() => client.close());
        const increment = async () => {
          const { structuredContent } = await client.callTool({ name: 'increment', arguments: {} });
          return (structuredContent as { count: number }).count;
        };
        return { client, increment, pid: transport.pid as number };
      };
      const first = await start(await browserIn(path));
      expect(await first.increment()).toBe(1);
      expect(await first.increment()).toBe(2);
      const closed = new Promise<void>((gone) => (first.client.onclose = gone));
      process.kill(first.pid, 'SIGKILL');
      await closed;
      // Nobody answers a sign-in page now: what is kept must be enough.
      const second = await start('/bin/false');
      expect(await second.increment()).toBe(3);
      expect(taken.filter((method) => method === 'initialize')).toHaveLength(1);
    });
  },
);

describe('valise connect with a sign-in page open', () => {
  it.each(['the end of its input', 'SIGTERM', 'SIGINT'] as const)(
    'ends with %s: it answers what is open, and leaves the sign-in to the next one',
    { timeout: 60_000 },
    async (end) => {
      const path = await folder();
      const keys = { VALISE_KEYS: generateKey() };
      const { url } = await serveExample(['vault', '--with-auth'], keys);
      const store = ['--store', `sqlite:${join(path, 'state.db')}`];
      const bridge = spawn(process.execPath, [VALISE, 'connect', url, ...store], {
        env: { ...process.env, ...keys, VALISE_BROWSER: '/bin/true' },
      });
      onTestFinished(() => void bridge.kill('SIGKILL'));
      const said = text(bridge.stdout);
      const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: INFO };
      bridge.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`);
      await says(bridge, 'Sign in here');
      if (end === 'the end of its input') bridge.stdin.end();
      else bridge.kill(end);
      expect(await once(bridge, 'exit')).toEqual([0, null]);
      expect(JSON.parse(await said)).toMatchObject({
        id: 1,
        error: { message: expect.stringContaining('closed its side') },
      });
      const browser = { ...keys, VALISE_BROWSER: await browserIn(path) };
      const next = await valise(['call', url, 'increment', ...store], browser);
      expect(next).toMatchObject({ code: 0, stdout: '1\n' });
      expect(next.stderr).not.toContain('another process');
    },
  );
});

describe('valise call with a sign-in page open', { timeout: 60_000 }, () => {
  const open = async () => {
    const path = await folder();
    const keys = { VALISE_KEYS: generateKey() };
    const { url } = await serveExample(['vault', '--with-auth'], keys);
    const args = ['call', url, 'increment', '--store', `sqlite:${join(path, 'state.db')}`];
    const env = { ...process.env, ...keys, VALISE_BROWSER: '/bin/true' };
    const child = spawn(process.execPath, [VALISE, ...args], { env });
    onTestFinished(() => void child.kill('SIGKILL'));
    const said = await says(child, 'Sign in here');
    return { child, args, env, said, keys, browser: await browserIn(path) };
  };

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'ends with %s as any program does, and leaves the sign-in to the next run',
    async (signal) => {
      const { child, args, said, keys, browser } = await open();
      const closed = once(child, 'close');
      child.kill(signal);
      expect(await closed).toEqual([null, signal]);
      expect(said().replace(/^Sign in here.*\n/m, '')).not.toContain('closed');
      const next = await valise(args, { ...keys, VALISE_BROWSER: browser });
      expect(next).toMatchObject({ code: 0, stdout: '1\n' });
      expect(next.stderr).not.toContain('another process');
    },
  );

  it('says that another process has opened the page, and takes its turn where that one is killed', async () => {
    const { child, args, env, browser } = await open();
    const next = spawn(process.execPath, [VALISE, ...args], { env: { ...env, VALISE_BROWSER: browser } });
    onTestFinished(() => void next.kill('SIGKILL'));
    const closed = once(next, 'close');
    const answered = text(next.stdout);
    await says(next, 'another process has opened a page to sign in');
    child.kill('SIGKILL');
    expect(await closed).toEqual([0, null]);
    expect(await answered).toBe('1\n');
  });
});

/** Waits until a program has said this on stderr; what it has said, then and later. */
async function says(child: ChildProcess, words: string): Promise<() => string> {
  let said = '';
  await new Promise<void>((resolve) =>
    child.stderr?.on('data', (chunk) => {
      said += chunk;
      if (said.includes(words)) resolve();
    }),
  );
  return () => said;
}
