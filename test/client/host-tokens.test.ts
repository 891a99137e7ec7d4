import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { type ClientStateStore, openValise, type ServerMetadata, type TokenInfo } from 'mcp-valise/client';
import { CORE } from 'mcp-valise/internal';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KINDS, type Kind } from './hosts.ts';

/** A host's own store, as the seed has it, whose tokens come from somewhere else. */
class Host implements ClientStateStore {
  /** What `getAccessToken` returns, one after the other as they are cleared. */
  readonly tokens: TokenInfo[];
  readonly cleared: string[] = [];
  asked = 0;
  session: string | undefined;
  metadata: ServerMetadata | undefined;

  constructor(...tokens: readonly (string | TokenInfo)[]) {
    this.tokens = tokens.map((one) => (typeof one === 'string' ? { accessToken: one } : one));
  }

  setSessionId(sessionId: string): void {
    this.session = sessionId;
  }
  getSessionId(): string | undefined {
    return this.session;
  }
  clearSessionId(): void {
    this.session = undefined;
  }
  setAccessToken(): void {
    throw new Error('Nobody has signed in here.');
  }
  async getAccessToken(): Promise<TokenInfo | null> {
    this.asked++;
    return this.tokens[0] ?? null;
  }
  clearAccessToken(): void {
    this.cleared.push(this.tokens.shift()?.accessToken ?? '');
  }
  setServerMetadata(metadata: ServerMetadata): void {
    this.metadata = metadata;
  }
  getServerMetadata(): ServerMetadata | undefined {
    return this.metadata;
  }
  clearServerMetadata(): void {
    this.metadata = undefined;
  }
}

interface Heard {
  readonly method: string;
  readonly authorization: string | undefined;
  readonly session: string | undefined;
}

/** A server that lets in whoever has the right token, and knows nothing of OAuth. */
async function openGuarded() {
  const heard: Heard[] = [];
  const paths = new Set<string | undefined>();
  const guarded = { good: 'good', heard, paths, url: '', close: async () => {} };
  const server = createServer(async (request, response) => {
    paths.add(request.url);
    const body = await text(request);
    const { authorization, 'mcp-session-id': session } = request.headers;
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method, params } = JSON.parse(body) as {
      id?: number;
      method: string;
      params?: { protocolVersion?: string; _meta?: object };
    };
    heard.push({ method, authorization, session: session as string | undefined });
    if (authorization !== `Bearer ${guarded.good}`) return void response.writeHead(401).end();
    if (id === undefined) return void response.writeHead(202).end();
    const serverInfo = { name: 'guarded', version: '1.0.0' };
    const capabilities = { tools: {} };
    const modern = params?._meta && CORE.protocolVersion in params._meta;
    const result = {
      ...(modern && { resultType: 'complete', ttlMs: 0, cacheScope: 'private' }),
      ...(method === 'initialize'
        ? { protocolVersion: params?.protocolVersion, capabilities, serverInfo }
        : method === 'server/discover'
          ? { supportedVersions: ['2026-07-28'], capabilities, _meta: { [CORE.serverInfo]: serverInfo } }
          : { content: [{ type: 'text', text: 'in' }] }),
    };
    response.writeHead(200, {
      'content-type': 'application/json',
      ...(method === 'initialize' && { 'mcp-session-id': 'transport-1' }),
    });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  guarded.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  guarded.close = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return guarded;
}

function clientOf({ major, era }: Kind): ClientV2 {
  const info = { name: 'host-tokens', version: '1.0.0' };
  if (major === 'v1') return new ClientV1(info) as unknown as ClientV2;
  return new ClientV2(info, {
    versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' },
  });
}

describe.each(KINDS)('tokens of the host, without auth, with a $kind client', (kind) => {
  let server: Awaited<ReturnType<typeof openGuarded>>;
  beforeEach(async () => {
    server = await openGuarded();
  });
  afterEach(() => server.close());

  /** The store as that of the whole Valise, or of one connection. */
  const enter = async (host: Host, place: 'valise' | 'connection' = 'valise') => {
    const valise = await openValise({ store: place === 'valise' ? host : memoryStore() });
    const client = clientOf(kind);
    const leave = async () => {
      await client.close();
      await valise.close();
    };
    try {
      await valise.connect(client, server.url, place === 'connection' ? { store: host } : {});
    } catch (error) {
      await leave();
      throw error;
    }
    return { client, leave };
  };

  it.each(['valise', 'connection'] as const)(
    '[C-06] The token of the host is in Authorization of every request (store of the %s)',
    async (place) => {
      const host = new Host('good');
      const { client, leave } = await enter(host, place);
      await client.callTool({ name: 'x' });
      await leave();
      expect(new Set(server.heard.map(({ authorization }) => authorization))).toEqual(
        new Set(['Bearer good']),
      );
      expect(host.cleared).toEqual([]);
      expect([...server.paths]).toEqual(['/mcp']);
    },
  );

  it('[C-06] A 401 clears the token of the host, and the store is asked once more', async () => {
    const host = new Host('stale', 'good');
    const { client, leave } = await enter(host);
    await client.callTool({ name: 'x' });
    expect(host.cleared).toEqual(['stale']);
    // In the course of a connection, too, and in its session.
    server.good = 'better';
    host.tokens.push({ accessToken: 'better' });
    await client.callTool({ name: 'x' });
    expect(host.cleared).toEqual(['stale', 'good']);
    expect(server.heard.at(-1)).toMatchObject({ method: 'tools/call', authorization: 'Bearer better' });
    expect(server.heard.filter(({ method }) => method === 'initialize')).toHaveLength(
      kind.era === 'legacy' ? 2 : 0,
    );
    await leave();
    // Nor does the next process begin anew for it.
    const from = server.heard.length;
    const next = await enter(host);
    await next.client.callTool({ name: 'x' });
    expect(server.heard.slice(from).map(({ method }) => method)).toEqual(['tools/call']);
    if (kind.era === 'legacy') expect(server.heard.at(-1)?.session).toBe('transport-1');
    await next.leave();
    expect([...server.paths]).toEqual(['/mcp']);
  });

  it('[C-06] The call fails with the 401 if the store has no other token', async () => {
    const host = new Host('stale');
    await expect(enter(host)).rejects.toThrow();
    expect(host.cleared).toEqual(['stale']);
    expect(server.heard.every(({ authorization }) => authorization !== 'Bearer good')).toBe(true);
  });

  it('[C-06] An expired token of the host is not sent', async () => {
    const host = new Host({ accessToken: 'over', expiresAt: Date.now() - 1 }, 'good');
    const { leave } = await enter(host);
    await leave();
    expect(host.cleared).toEqual(['over']);
    expect(server.heard.map(({ authorization }) => authorization)).not.toContain('Bearer over');
  });

  it('[C-06] The token of the host is not sent to a second server', async () => {
    const other = await openGuarded();
    const host = new Host('good');
    const valise = await openValise({ store: host });
    const clients = [clientOf(kind), clientOf(kind)] as const;
    await valise.connect(clients[0], server.url);
    await expect(valise.connect(clients[1], other.url)).rejects.toThrow();
    expect(other.heard.map(({ authorization }) => authorization)).not.toContain('Bearer good');
    for (const client of clients) await client.close();
    await valise.close();
    await other.close();
  });
});
