import { copyFileSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client as ClientV2, InMemoryTransport as MemoryV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { InMemoryTransport as MemoryV1 } from '@modelcontextprotocol/sdk/inMemory.js';
import { type ClientValise, openValise, type Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TransportLike } from '../../src/core/instrument.ts';
import { StdioClientTransport as StdioOwn } from '../../src/edge/stdio-client.ts';
import { setting, stateOf } from './hosts.ts';

const SCRIPT = fileURLToPath(new URL('./stdio-server.mjs', import.meta.url));
const info = { name: 'test', version: '1.0.0' };

let store: Store;
let valise: ClientValise;
beforeEach(async () => {
  store = memoryStore();
  valise = await openValise({ store });
});
afterEach(() => valise.close());

describe.each([
  { kind: 'v1', Client: ClientV1, Stdio: StdioV1 },
  { kind: 'v2', Client: ClientV2, Stdio: StdioV2 },
  { kind: 'v2 on our own transport', Client: ClientV2, Stdio: StdioOwn },
])('the jar over stdio, $kind', ({ Client, Stdio }) => {
  let folder: string;
  beforeEach(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'valise-stdio-')));
    copyFileSync(SCRIPT, join(folder, 'server.mjs'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Calls the server once for each argument; what it saw in the jar, session scope first. */
  async function calls(args: string[], times = 1, given: object = {}, over = valise): Promise<unknown[]> {
    const client = new Client(info) as ClientV2;
    await over.connect(client, new Stdio({ command: process.execPath, args, cwd: folder }) as TransportLike);
    const seen: unknown[] = [];
    for (let at = 0; at < times; at++) {
      const { content } = await client.callTool({ name: 'count', arguments: { ...given } });
      seen.push(JSON.parse((content as { text: string }[])[0]!.text));
    }
    await client.close();
    return seen;
  }

  it('[J-10][J-11][J-17] State belongs to the script, whatever the working directory', async () => {
    expect(await calls(['server.mjs'], 2)).toEqual([
      [null, null],
      [{ count: 1 }, { count: 1 }],
    ]);
    symlinkSync(join(folder, 'server.mjs'), join(folder, 'link.mjs'));
    expect(await calls(['--no-warnings', './link.mjs', 'x'])).toEqual([[null, { count: 2 }]]);
    expect(valise.jar.list().map(({ server }) => server)).toEqual([join(folder, 'server.mjs')]);
    copyFileSync(SCRIPT, join(folder, 'other.mjs'));
    expect(await calls(['other.mjs'])).toEqual([[null, null]]);
  });

  it('[J-26] Another version of a package starts without state', async () => {
    writeFileSync(join(folder, 'package.json'), '{"name":"bare","version":"1.0.0"}');
    await calls(['server.mjs']);
    expect(valise.jar.list()[0]!.server).toBe(`${join(folder, 'server.mjs')}#bare@1.0.0`);
    expect(valise.jar.list({ server: join(folder, 'server.mjs') })).toHaveLength(1);
    expect(await calls(['server.mjs'])).toEqual([[null, { count: 1 }]]);
    writeFileSync(join(folder, 'package.json'), '{"name":"bare","version":"2.0.0"}');
    expect(await calls(['server.mjs'])).toEqual([[null, null]]);
  });

  it('[J-26] With digest, another program at the same path starts without state', async () => {
    const strict = await openValise({ store, digest: true });
    await calls(['server.mjs'], 1, {}, strict);
    expect(await calls(['server.mjs'], 1, {}, strict)).toEqual([[null, { count: 1 }]]);
    writeFileSync(join(folder, 'server.mjs'), '// swapped\n', { flag: 'a' });
    expect(await calls(['server.mjs'], 1, {}, strict)).toEqual([[null, null]]);
    await strict.close();
  });

  it('[J-20] A server-scope of a stdio server is refused', async () => {
    const refused: unknown[] = [];
    valise.jar.on('refused', ({ scope, key, reason }) => refused.push([scope, key, reason]));
    const attributes = { server: { count: { 'server-scope': 'example.com' } } };
    await calls(['server.mjs'], 1, { attributes });
    expect(refused).toEqual([['server', 'count', 'server-scope']]);
    expect(valise.jar.list()).toEqual([]);
  });
});

describe.each([
  { kind: 'v1', Client: ClientV1, Memory: MemoryV1 },
  { kind: 'v2', Client: ClientV2, Memory: MemoryV2 },
])('the jar of a server in this process, $kind', ({ Client, Memory }) => {
  /** A server that sets state, and hands out what it was sent. */
  async function connected(over: ClientValise) {
    const [near, far] = Memory.createLinkedPair();
    const received: {
      method: string;
      params?: { _meta?: Record<string, unknown>; capabilities?: object };
    }[] = [];
    const kept = { list: [1] };
    far.onmessage = (message: object) => {
      const request = message as { id?: number; method: string };
      received.push(request);
      if (request.id === undefined) return;
      const result =
        request.method === 'initialize'
          ? { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: info }
          : setting('legacy', { server: { kept } });
      void far.send({ jsonrpc: '2.0', id: request.id, result } as never);
    };
    await far.start();
    const client = new Client(info) as ClientV2;
    await over.connect(client, near as TransportLike);
    return { client, received, kept };
  }

  it('[J-13] A client carries no state for a server in the same process', async () => {
    const { client, received } = await connected(valise);
    await client.ping();
    await client.ping();
    expect(received[0]!.params!.capabilities).not.toHaveProperty('state');
    expect(received.map(({ params }) => stateOf(params?._meta ?? {}))).toEqual([{}, {}, {}, {}]);
    await client.close();
  });

  it('[J-13] With allowLocal, the state of a server in the same process ends with the connection and is not stored', async () => {
    const local = await openValise({ store, allowLocal: true });
    const { client, received, kept } = await connected(local);
    await client.ping();
    kept.list.push(666);
    await client.ping();
    const sent = stateOf(received.at(-1)!.params!._meta!) as { server: { kept: { list: number[] } } };
    expect(sent).toEqual({ server: { kept: { list: [1] } } });
    sent.server.kept.list.push(667);
    expect(local.jar.list({ values: true })).toMatchObject([{ scope: 'server', value: { list: [1, 666] } }]);
    await client.close();
    expect(local.jar.list()).toEqual([]);
    const again = await connected(local);
    await again.client.ping();
    expect(again.received.map(({ params }) => stateOf(params?._meta ?? {}))).toEqual([{}, {}, {}]);
    await again.client.close();
    await local.close();
    expect((await store.list('')).keys).toEqual([]);
  });
});
