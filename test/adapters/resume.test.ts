import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import {
  StreamableHTTPClientTransport as ClientTransportV2,
  Client as ClientV2,
} from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as ClientTransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { openStore, type Store } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { child as bundle } from '../child.ts';
import { temporaryFolder } from '../store/places.ts';
import { places } from './places.ts';
import { type Handle, servers, text } from './resume-instance.ts';

const PROTOCOL = '2025-11-25';

/** What an instance does with a session of another one: it introduces itself in the client's place. */
async function adopt(handle: Handle): Promise<void> {
  const params = {
    protocolVersion: PROTOCOL,
    capabilities: {},
    clientInfo: { name: 'adopted', version: '1.0.0' },
  };
  const response = await handle(
    new Request('http://127.0.0.1/mcp', {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 'adopt', method: 'initialize', params }),
    }),
  );
  await response.text();
}

/** A balancer before one instance at a time, whose connections can be cut. */
function balancer() {
  let target: Handle | undefined;
  const cuts = new Set<() => void>();
  const resumed: string[] = [];
  const fetch = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    const last = request.headers.get('last-event-id');
    if (!target) throw new TypeError('fetch failed');
    if (last !== null) resumed.push(last);
    const response = await target(request);
    if (!response.body) return response;
    const { readable, writable } = new TransformStream();
    const cut = new AbortController();
    cuts.add(() => cut.abort(new TypeError('terminated')));
    response.body.pipeTo(writable, { signal: cut.signal, preventCancel: true }).catch(() => undefined);
    return new Response(readable, response);
  };
  return {
    fetch,
    resumed,
    to(handle: Handle | undefined) {
      target = handle;
      for (const cut of cuts) cut();
      cuts.clear();
    },
  };
}

const reconnectionOptions = {
  initialReconnectionDelay: 10,
  maxReconnectionDelay: 50,
  reconnectionDelayGrowFactor: 1,
  maxRetries: 500,
};

const clients = {
  async v1(fetch: typeof globalThis.fetch, heard: (data: unknown) => void) {
    const client = new ClientV1({ name: 'stock', version: '1.0.0' });
    const { LoggingMessageNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js');
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => heard(params.data));
    await client.connect(
      new ClientTransportV1(new URL('http://127.0.0.1/mcp'), { fetch, reconnectionOptions }) as never,
    );
    return client;
  },
  async v2(fetch: typeof globalThis.fetch, heard: (data: unknown) => void) {
    const client = new ClientV2({ name: 'stock', version: '1.0.0' });
    client.setNotificationHandler('notifications/message', ({ params }) => heard(params.data));
    await client.connect(
      new ClientTransportV2(new URL('http://127.0.0.1/mcp'), { fetch, reconnectionOptions }),
    );
    return client;
  },
};

async function contents(store: Store): Promise<string> {
  const { keys } = await store.list('');
  return JSON.stringify(await Promise.all(keys.map((key) => store.get(key))));
}

describe.each(places)('A stream whose events are on %s', (_, share) => {
  it.each(['v1', 'v2'] as const)(
    'is resumed by a stock client at another instance after it lost the first (SDK %s)',
    async (major) => {
      const open = share();
      const session = randomUUID();
      const balance = balancer();
      let openGate = (): void => {};
      const gate = new Promise<void>((resolve) => void (openGate = resolve));

      balance.to(await servers[major](session, await open(), gate));
      const heard: unknown[] = [];
      const client = await clients[major](balance.fetch, (data) => heard.push(data));
      const answer = client.callTool({ name: 'slow', arguments: {} });
      await expect.poll(() => heard).toEqual(['one']);

      // The client is cut off, the first instance still finishes the call, and is never reached again.
      balance.to(undefined);
      openGate();
      const store = await open();
      await expect.poll(() => contents(store)).toContain('done');
      const second = await servers[major](session, store, gate);
      await adopt(second);
      balance.to(second);

      expect(await answer).toMatchObject(text('done'));
      expect(heard).toEqual(['one', 'two']);
      expect(balance.resumed.length).toBeGreaterThan(0);
      await client.close();
    },
  );
});

describe('A stream whose events are on SQLite, with instances in processes', () => {
  it.each(['v1', 'v2'] as const)(
    'is resumed by a stock client after the first instance was killed with events that nobody got (SDK %s)',
    async (major) => {
      const { folder, remove } = temporaryFolder();
      onTestFinished(remove);
      const url = `sqlite:${join(folder, 'state.db')}`;
      const session = randomUUID();
      const module = bundle(new URL('./resume-child.ts', import.meta.url));
      const child = spawn(process.execPath, [module, major, session, url], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      const [port] = (await once(child.stdout, 'data')) as [Buffer];

      const balance = balancer();
      balance.to((request) => {
        const target = new URL(request.url);
        target.port = String(port).trim();
        return fetch(new Request(target, request));
      });
      const heard: unknown[] = [];
      const client = await clients[major](balance.fetch, (data) => heard.push(data));
      const answer = client.callTool({ name: 'slow', arguments: {} });
      await expect.poll(() => heard).toEqual(['one']);

      balance.to(undefined);
      child.stdin.write('go on\n');
      const store = await openStore(url);
      onTestFinished(() => store.close());
      await expect.poll(() => contents(store), { timeout: 10_000 }).toContain('done');
      child.kill('SIGKILL');
      await once(child, 'exit');
      const second = await servers[major](session, store, Promise.resolve());
      await adopt(second);
      balance.to(second);

      expect(await answer).toMatchObject(text('done'));
      expect(heard).toEqual(['one', 'two']);
      await client.close();
    },
  );
});
