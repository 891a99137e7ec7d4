import { join } from 'node:path';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it, onTestFinished } from 'vitest';
import { browserIn } from './browser.ts';
import { folder, serveExample, VALISE } from './valise.ts';
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
    it('signs in at the first start, and goes on in the session after it was killed', {
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
