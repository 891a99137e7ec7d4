import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, expect, it, onTestFinished } from 'vitest';
import { VALISE } from '../cli/valise.ts';
import { ODD_LINES, rawStatus } from '../raw-http.ts';
import { startHttp } from './example.ts';

/** Sends what is no request for a path, many at once too, and then one that is. */
async function expectRefused(url: URL): Promise<void> {
  for (const line of ODD_LINES) {
    const status = await rawStatus(url.port, line);
    const isPath = line.includes(' /');
    const expected = line.startsWith('CONNECT') ? [0, 400] : isPath ? [400, 404] : [400];
    expect(expected, line).toContain(status);
  }
  await Promise.all(ODD_LINES.map((line) => rawStatus(url.port, line)));
  const initialize = {
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
  };
  const post = (to: string) =>
    fetch(to, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify(initialize),
    });
  expect([200, 401]).toContain((await post(url.href)).status);
  expect(await rawStatus(url.port, `GET ${url.href}`)).toBe(400);
}

describe('malformed request targets', { timeout: 60_000 }, () => {
  it.each([
    ['shop', '--sdk', 'v2'],
    ['shop', '--sdk', 'v1', '--stateless'],
    ['notebook', '--sdk', 'v1'],
    ['work-items', '--sdk', 'v2', '--stateless'],
    ['vault', '--sdk', 'v1'],
    ['vault', '--with-auth'],
  ])(
    'the example %s %s %s %s answers malformed request targets with 400, and keeps running',
    async (name, ...args) => {
      const example = await startHttp(
        name,
        args.filter((arg) => arg !== undefined),
      );
      onTestFinished(async () => void (await example.stop('SIGTERM')));
      await expectRefused(example.url);
      expect(example.child.exitCode).toBeNull();
    },
  );

  it('a cluster answers malformed request targets with 400, and keeps running', async () => {
    const child = spawn(process.execPath, [VALISE, 'cluster', 'shop', '--instances', '2', '--http', '0'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(async () => {
      const gone = once(child, 'close');
      child.kill('SIGTERM');
      await gone;
    });
    for await (const line of createInterface({ input: child.stdout })) {
      const [, url] = /^listening on (\S+)/.exec(line) ?? [];
      if (url === undefined) continue;
      await expectRefused(new URL(url));
      expect(child.exitCode).toBeNull();
      return;
    }
    throw new Error('The cluster ended.');
  });
});
