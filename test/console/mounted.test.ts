import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { Client } from '@modelcontextprotocol/client';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import type { ServerValise } from 'mcp-valise/server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { example } from '../../examples/shop.ts';
import { because } from '../skip.ts';
import { look } from './look.ts';
import { HAS_BROWSER, Stage } from './stage.ts';

describe.skipIf(!HAS_BROWSER)('valise.console() in a server', because('needs Chromium'), () => {
  let stage: Stage;
  let origin: string;
  let close = async (): Promise<void> => {};
  beforeAll(async () => {
    stage = await Stage.open();
    const options = { keys: generateKey(), store: undefined, principal: undefined, events: {} };
    const { valise, server } = await example.build({ sdk: 'v2', McpServer, options, flags: {} });
    const operator = (valise as ServerValise).console();
    const handler = valise.http(createMcpHandler(server as never).fetch as never) as (
      request: Request,
    ) => Promise<Response>;
    const listening = serve({
      port: 0,
      hostname: '127.0.0.1',
      // The author's own authentication.
      fetch: (request) =>
        !new URL(request.url).pathname.startsWith('/operator/')
          ? handler(request)
          : request.headers.get('authorization') === 'Bearer admin'
            ? operator(request)
            : new Response('no', { status: 401 }),
    });
    if (!listening.listening) await once(listening, 'listening');
    origin = `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
    close = async () => {
      (listening as unknown as { closeAllConnections(): void }).closeAllConnections();
      listening.close();
      await valise.close();
    };
  });
  afterAll(async () => {
    await stage?.close();
    await close();
  });

  it('shows rejections with what they may mean and keys in traffic, behind the author’s authentication', async () => {
    const host = await openValise({ store: 'memory:', allowLocal: true });
    host.on('warning', () => {});
    const client = new Client({ name: 'host', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
    await host.connect(client, `${origin}/mcp`);
    await client.callTool({ name: 'remember', arguments: { name: 'size', value: 'M' } });
    await client.callTool({ name: 'recall', arguments: { name: 'size' } });
    // Somebody changes a seal.
    const text = JSON.stringify(host.jar.export());
    await host.jar.clear();
    await host.jar.import(
      JSON.parse(
        text.replace(/(v1\.[\w-]{8}\.[\w-]{40})(\w)/, (_, all, char) => all + (char === 'A' ? 'B' : 'A')),
      ),
    );
    await client.callTool({ name: 'recall', arguments: { name: 'size' } });
    await client.close();
    await host.close();

    expect((await fetch(`${origin}/operator/`)).status).toBe(401);
    const headers = { authorization: 'Bearer admin' };
    expect((await fetch(`${origin}/operator/`, { method: 'POST', headers })).status).toBe(405);
    expect((await fetch(`${origin}/operator/package.json`, { headers })).status).toBe(404);
    const { page, context, errors } = await stage.page(`${origin}/operator/`, { extraHTTPHeaders: headers });
    await page.getByRole('link', { name: 'Rejections' }).click();
    await page.getByText('1 time', { exact: true }).waitFor();
    await look(page, 'server-rejected');
    await page.getByRole('link', { name: 'Store and keys' }).click();
    await page.getByText('How many seals that clients sent back').waitFor();
    await expect.poll(() => page.getByRole('row').nth(1).innerText()).toMatch(/[1-9] entr/);
    await page.getByRole('link', { name: 'Flows' }).click();
    await page.getByText('answered').waitFor();
    expect(errors).toEqual([]);
    await context.close();
  });
});
