import { getEventListeners } from 'node:events';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { type ClientValise, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { addHttpEdge, hasHttpEdge } from '../../src/client/connection/http.ts';
import type { TransportLike } from '../../src/core/instrument.ts';
import type { FetchLike } from '../../src/edge/fetch.ts';
import { type Hosts, openHosts } from './hosts.ts';

const url = new URL('https://shop.example.com/mcp');
const info = { name: 'host', version: '1.0.0' };

let hosts: Hosts;
let valise: ClientValise;
beforeEach(async () => {
  hosts = await openHosts();
  valise = await openValise({ store: memoryStore() });
});
afterEach(async () => {
  vi.unstubAllGlobals();
  await valise.close();
  await hosts.close();
});

/** What the tests look at in a transport of either major. */
type Inside = TransportLike & { _fetch: FetchLike; _abortController: AbortController };

const MAJORS = [
  { major: 'v1', Client: ClientV1, Http: HttpV1 },
  { major: 'v2', Client: ClientV2, Http: HttpV2 },
] as const;

describe.each(MAJORS)('the HTTP edge in a transport of the application, SDK $major', ({ Client, Http }) => {
  const make = (options?: object) => new Http(url, options as never) as unknown as Inside;
  const connected = async (options?: object) => {
    const client = new Client(info) as ClientV2;
    const transport = make(options);
    await valise.connect(client, transport);
    return { client, transport };
  };

  it('The HTTP edge uses the fetch that the transport was created with', async () => {
    const { client, transport } = await connected({ fetch: hosts.fetch });
    expect(hasHttpEdge(transport)).toBe(true);
    await client.callTool({ name: 'any' });
    expect(hosts.last().host).toBe(url.hostname);
    await client.close();
  });

  it('The HTTP edge uses the current global fetch', async () => {
    vi.stubGlobal('fetch', hosts.fetch);
    const { client } = await connected();
    const later = vi.fn(hosts.fetch);
    vi.stubGlobal('fetch', later);
    await client.callTool({ name: 'any' });
    expect(later).toHaveBeenCalledOnce();
    await client.close();
  });

  it('The HTTP edge leaves no listener per request on the signal of the transport', async () => {
    const { client, transport } = await connected({ fetch: hosts.fetch });
    const { signal } = transport._abortController;
    const before = getEventListeners(signal, 'abort').length;
    for (let at = 0; at < 50; at++) await client.callTool({ name: 'any' });
    expect(getEventListeners(signal, 'abort').length).toBeLessThanOrEqual(before + 2);
    await client.close();
  });

  it('Closing the transport ends the requests in progress', async () => {
    const { client, transport } = await connected({ fetch: hosts.fetch });
    await client.callTool({ name: 'any' });
    let asked = () => {};
    const coming = new Promise<void>((resolve) => {
      asked = resolve;
    });
    hosts.respond = () => {
      asked();
      return new Promise(() => {});
    };
    const call = client.callTool({ name: 'never' });
    const ended = expect(call).rejects.toThrow();
    await coming;
    await transport.close();
    await ended;
  });

  it('The HTTP edge reads responses to MCP requests of either era and nothing else', async () => {
    const answer = '{"jsonrpc":"2.0","id":1,"result":{},"state":"theirs"}';
    const json = { headers: { 'content-type': 'application/json' } };
    const transport = make({ fetch: async () => new Response(answer, json) });
    addHttpEdge(transport);
    const ask = async (headers: Record<string, string>) => (await transport._fetch(url, { headers })).json();
    const accept = 'application/json, text/event-stream';
    expect(await ask({ accept })).not.toHaveProperty('state');
    expect(await ask({ accept, 'mcp-protocol-version': '2025-11-25' })).not.toHaveProperty('state');
    expect(await ask({ accept, 'mcp-protocol-version': '2026-07-28' })).not.toHaveProperty('state');
    // As where somebody signs in.
    expect(await ask({ accept: 'application/json' })).toEqual(JSON.parse(answer));
  });

  it('Adding the HTTP edge twice has no effect', async () => {
    const transport = make({ fetch: hosts.fetch });
    addHttpEdge(transport);
    const { _fetch } = transport;
    addHttpEdge(transport);
    expect(transport._fetch).toBe(_fetch);
  });

  it('The HTTP edge follows redirects as far as the transport does', async () => {
    hosts.redirect = 'https://other.example.com/mcp';
    const refused = /Redirect to https:\/\/other\.example\.com\/mcp not followed/;
    await expect(connected({ fetch: hosts.fetch })).rejects.toThrow(refused);
    expect(hosts.seen).toEqual([]);
  });
});

it('An SDK v1 transport that leaves redirects to fetch still does so', async () => {
  const transport = new HttpV1(url, { fetch: hosts.fetch, redirectPolicy: 'follow' } as never);
  const { _fetch } = transport as unknown as Inside;
  addHttpEdge(transport as never);
  expect(hasHttpEdge(transport as never)).toBe(false);
  expect((transport as unknown as Inside)._fetch).toBe(_fetch);
});

it('Transports of other kinds stay unchanged', () => {
  const transport = new SSEClientTransport(url);
  addHttpEdge(transport as never);
  expect(hasHttpEdge(transport as never)).toBe(false);
  expect((transport as unknown as Inside)._fetch).toBeUndefined();
});
