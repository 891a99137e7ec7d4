import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { describe, expect, it, onTestFinished } from 'vitest';
import { of, type Report } from './report.ts';
import { sdkHost } from './sdk-hosts.ts';
import { launcherBeside, serveExample, valise, valiseJson } from './valise.ts';

const V1 = ['@modelcontextprotocol/sdk', 'zod'];
const V2 = [
  '@modelcontextprotocol/client',
  '@modelcontextprotocol/server',
  '@modelcontextprotocol/node',
  'zod',
];
const NEWER_STDIO = fileURLToPath(new URL('./newer-server.mjs', import.meta.url));
const memory = { VALISE_STORE: 'memory:' };

describe('with only one major of the SDK installed', { timeout: 60_000 }, () => {
  it.each([
    ['v1', V1],
    ['v2', V2],
  ])('uses it without being told: %s', async (_major, peers) => {
    const launcher = await launcherBeside(...peers);
    const { url } = await serveExample(['shop'], memory, launcher);
    const { url: vault } = await serveExample(['vault'], memory, launcher);
    const listed = await valiseJson(['list', url], memory, launcher);
    expect(listed).toMatchObject({ tools: expect.arrayContaining([{ name: 'view_cart' }].map(like)) });
    const counted = await valise(['call', vault, 'increment'], memory, launcher);
    expect(counted).toMatchObject({ code: 0, stdout: '1\n' });
    const report = await valiseJson<Report>(['doctor', url], memory, launcher);
    expect(of(report, 'sdk')).toEqual({ check: 'sdk', status: 'ok', what: `${peers[0]} can be used.` });
    expect(of(report, 'era legacy')).toMatchObject({ status: 'ok' });
    expect(of(report, 'the jar')).toMatchObject({ status: 'ok' });
  });

  it.each([
    ['v2', V1, '@modelcontextprotocol/client'],
    ['v1', V2, '@modelcontextprotocol/sdk'],
  ])('says how to install the other one, where that is asked for: %s', async (major, peers, missing) => {
    const launcher = await launcherBeside(...peers);
    const { url } = await serveExample(['shop'], memory);
    const line = `npm install ${missing}`;
    const listed = await valise(['list', url, '--sdk', major], memory, launcher);
    expect(listed).toMatchObject({ code: 1, stderr: expect.stringMatching(new RegExp(`${line}\n$`)) });
    const report = await valiseJson<Report>(['doctor', url, '--sdk', major], memory, launcher);
    expect(of(report, 'target')).toMatchObject({
      status: 'fail',
      what: expect.stringMatching(/is not installed\.$/),
      fix: expect.stringContaining(line),
    });
    const served = await valise(['example', 'shop', '--stdio', '--sdk', major], memory, launcher);
    const server = missing.replace('client', 'server');
    expect(served).toMatchObject({ code: 1, stderr: expect.stringContaining(`npm install ${server}\n`) });
  });

  it('prints a configuration that hosts can start: the bridge takes no --sdk', async () => {
    const launcher = await launcherBeside(...V1);
    const target = 'https://shop.example.com/mcp';
    const { stdout } = await valise(['connect', '--print-config', 'claude', target], {}, launcher);
    const { args } = JSON.parse(stdout).mcpServers['shop.example.com'];
    expect(args.slice(args.indexOf('connect'))).toEqual(['connect', target]);
  });

  it('says that the newer era needs v2', async () => {
    const launcher = await launcherBeside(...V1);
    const { url } = await serveExample(['shop'], memory);
    const report = await valiseJson<Report>(['doctor', url], memory, launcher);
    expect(of(report, 'era modern')).toMatchObject({
      status: 'warn',
      what: expect.stringContaining('up to 2025-11-25'),
      fix: expect.stringContaining('npm install @modelcontextprotocol/client'),
    });
    const asked = await valise(['list', url, '--era', 'modern'], memory, launcher);
    expect(asked).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('npm install @modelcontextprotocol/client'),
    });
  });

  it('says so also where the server speaks only that', async () => {
    const launcher = await launcherBeside(...V1);
    const url = await serveNewer();
    const way = 'npm install @modelcontextprotocol/client';
    const said = 'The server speaks only 2026-07-28, and the v1 SDK speaks the protocol up to 2025-11-25.';
    const missing = await valise(['list', url], memory, launcher);
    expect(missing).toMatchObject({
      code: 1,
      stderr: `valise: ${said} Run beside mcp-valise: ${way}\n`,
    });
    const report = await valiseJson<Report>(['doctor', url], memory, launcher);
    expect(of(report, 'target')).toMatchObject({
      what: expect.stringContaining(said),
      fix: expect.stringContaining(way),
    });
  });

  it.each([
    ['HTTP', async () => serveNewer()],
    ['stdio', async () => `stdio:${process.execPath} ${NEWER_STDIO}`],
  ])('names --sdk v2 where that is there, for a server over %s', async (_, target) => {
    const at = await target();
    const older = await valise(['list', at, '--sdk', 'v1'], memory);
    expect(older).toMatchObject({ code: 1, stderr: expect.stringMatching(/^valise: .* Use --sdk v2\.\n$/) });
    const legacy = await valise(['list', at, '--era', 'legacy'], memory);
    expect(legacy).toMatchObject({ code: 1, stderr: expect.stringMatching(/ Leave out --era legacy\.\n$/) });
    expect(await valise(['list', at], memory)).toMatchObject({ code: 0 });
  });

  it.each(['v1', 'v2 auto'] as const)(
    'bridges a host to a server of the older era with v1 (host: %s)',
    async (kind) => {
      const launcher = await launcherBeside(...V1);
      const { url } = await serveExample(['shop'], memory);
      const command = [process.execPath, launcher, 'connect', url, '--allow-local'] as const;
      const { client } = await sdkHost(kind, command, { env: memory });
      const cart = await client.callTool({ name: 'add_item', arguments: { item: 'tea', price: 3 } });
      expect(cart.content).toEqual([{ type: 'text', text: 'Cart: tea; total 3' }]);
    },
  );

  it('translates for a host that knows only the newer era, with v1', async () => {
    const launcher = await launcherBeside(...V1);
    const { url } = await serveExample(['shop'], memory);
    const command = [process.execPath, launcher, 'connect', url, '--era', 'modern'] as const;
    const { client } = await sdkHost('v2 auto', command, { env: memory });
    expect(client.getNegotiatedProtocolVersion()).toBe('2026-07-28');
    const cart = await client.callTool({ name: 'view_cart', arguments: {} });
    expect(cart.content).toEqual([{ type: 'text', text: 'Cart: empty' }]);
  });

  it('tells a host of a server that speaks only the newer era what the bridge lacks', async () => {
    const launcher = await launcherBeside(...V1);
    const url = await serveNewer();
    const command = [process.execPath, launcher, 'connect', url, '--era', 'modern'] as const;
    const connecting = sdkHost('v2 auto', command, { env: memory });
    await expect(connecting).rejects.toThrow('npm install @modelcontextprotocol/client');
  });
});

describe('with no major of the SDK installed', { timeout: 60_000 }, () => {
  it('the doctor says so, and what to install', async () => {
    const report = await valiseJson<Report>(['doctor'], memory, await launcherBeside());
    expect(of(report, 'sdk')).toMatchObject({
      status: 'fail',
      fix: expect.stringContaining('npm install @modelcontextprotocol/client'),
    });
  });

  it.each([
    [['example', 'shop', '--http', '0'], '@modelcontextprotocol/server @modelcontextprotocol/node zod'],
    [['example', 'shop', '--stdio'], '@modelcontextprotocol/server zod'],
    [['example', 'shop', '--stdio', '--sdk', 'v1'], '@modelcontextprotocol/sdk zod'],
    [
      ['example', 'vault', '--http', '0', '--with-auth'],
      '@modelcontextprotocol/server @modelcontextprotocol/node zod oidc-provider',
    ],
    [['cluster', 'shop'], '@modelcontextprotocol/server @modelcontextprotocol/node zod'],
    [
      ['tour', '--story', 'cart', '--store', 'memory:'],
      '@modelcontextprotocol/client @modelcontextprotocol/server @modelcontextprotocol/node zod',
    ],
    [['list', 'http://127.0.0.1:9/mcp'], '@modelcontextprotocol/client'],
    [['connect', 'http://127.0.0.1:9/mcp'], '@modelcontextprotocol/client'],
  ])('%j says all that is missing with one command', async (args, packages) => {
    const ran = await valise(args, memory, await launcherBeside());
    expect(ran.code).toBe(1);
    expect(ran.stderr).toMatch(new RegExp(`^valise: .*npm install ${packages}\n$`));
  });
});

const like = (part: object) => expect.objectContaining(part);

/** A server that speaks only 2026-07-28; its URL. */
async function serveNewer(): Promise<string> {
  const make = () => {
    const newer = new McpServer({ name: 'newer', version: '1.0.0' });
    newer.registerTool('hello', {}, () => ({ content: [{ type: 'text', text: 'hello' }] }));
    return newer;
  };
  const server = createServer(toNodeHandler(createMcpHandler(make, { legacy: 'reject' })) as RequestListener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}
