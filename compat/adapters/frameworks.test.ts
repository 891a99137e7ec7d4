import { createHash, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { OAuthProxy } from 'fastmcp/auth';
import { withMcpAuth } from 'mcp-handler';
import type { Store } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { openClient, openWebhook } from './.work/examples/ai-sdk.ts';
import { openSession } from './.work/examples/cloudflare.ts';
import { openProxy } from './.work/examples/fastmcp.ts';
import { signIn } from './.work/examples/mastra.ts';
import { deliver, openHandler } from './.work/examples/mcp-handler.ts';
import { SHARED } from './stores.ts';

describe.each(SHARED)('FastMCP with two instances on a store in %s', (_, share) => {
  it('registers at one, signs in over both, and redeems a code once', async () => {
    const open = share();
    const upstream = createServer((_request, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ access_token: 'upstream', token_type: 'Bearer', expires_in: 3600 }));
    });
    await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void upstream.close());
    const keys = {
      encryptionKey: randomUUID(),
      jwtSigningKey: randomUUID(),
      consentSigningKey: randomUUID(),
    };
    const make = async () => {
      const proxy = openProxy(await open(), {
        ...keys,
        baseUrl: 'http://127.0.0.1:3000',
        consentRequired: false,
        upstreamAuthorizationEndpoint: 'https://as.example/authorize',
        upstreamTokenEndpoint: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/token`,
        upstreamClientId: 'app',
        upstreamClientSecret: 'secret',
      });
      onTestFinished(() => proxy.destroy());
      return proxy;
    };
    const [first, second] = [await make(), await make()];
    const redirect_uri = 'http://127.0.0.1:4000/callback';
    const { client_id } = await first.registerClient({ redirect_uris: [redirect_uri] });
    const verifier = randomUUID() + randomUUID();

    /** A sign-in that begins at one instance and comes back at another: the code for the client. */
    const codeFrom = async (begins: OAuthProxy, ends: OAuthProxy): Promise<string> => {
      const sent = await begins.authorize({
        client_id,
        redirect_uri,
        response_type: 'code',
        state: 'mine',
        code_challenge: createHash('sha256').update(verifier).digest('base64url'),
        code_challenge_method: 'S256',
      });
      const state = new URL(sent.headers.get('location') ?? '').searchParams.get('state');
      const back = await ends.handleCallback(
        new Request(`http://127.0.0.1:3000/oauth/callback?code=upstream&state=${state}`),
      );
      return new URL(back.headers.get('location') ?? '').searchParams.get('code') ?? '';
    };
    for (let round = 0; round < 5; round++) {
      const code = await codeFrom(second, first);
      const redeem = (proxy: OAuthProxy) =>
        proxy.exchangeAuthorizationCode({
          grant_type: 'authorization_code',
          client_id,
          redirect_uri,
          code,
          code_verifier: verifier,
        });
      const redeemed = await Promise.allSettled([first, second, first, second].map(redeem));
      const tokens = redeemed.flatMap((one) => (one.status === 'fulfilled' ? [one.value.access_token] : []));
      expect(tokens).toHaveLength(1);
      expect(await second.loadUpstreamTokens(tokens[0] ?? '')).toMatchObject({ accessToken: 'upstream' });
    }
  });
});

describe.each(SHARED)('Mastra on a store in %s', (_, share) => {
  it('is signed in after a restart, and not as another user or at another server', async () => {
    const open = share();
    const issuer = 'https://as.example';
    const first = signIn(await open(), 'ann', 'https://mcp.example');
    await first.saveTokens({ access_token: 'x', token_type: 'Bearer', issuer }, { issuer });
    await first.saveCodeVerifier('verifier');
    const restarted = signIn(await open(), 'ann', 'https://mcp.example');
    expect(await restarted.tokens({ issuer })).toMatchObject({ access_token: 'x' });
    expect(await restarted.codeVerifier()).toBe('verifier');
    expect(await signIn(await open(), 'bob', 'https://mcp.example').tokens({ issuer })).toBeUndefined();
    expect(await signIn(await open(), 'ann', 'https://other.example').tokens({ issuer })).toBeUndefined();
    await restarted.invalidateCredentials('all');
    expect(await first.tokens({ issuer })).toBeUndefined();
  });
});

describe.each(SHARED)("Cloudflare's WorkerTransport on a store in %s", (_, share) => {
  it('goes on with a session at another instance', async () => {
    const open = share();
    const session = randomUUID();
    const post = (method: string, params: object, headers = {}) =>
      new Request('http://127.0.0.1/mcp', {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...headers,
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      });
    const named = { 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' };
    const first = await openSession(await open(), session);
    const clientInfo = { name: 'stock', version: '1.0.0' };
    const begun = await first(
      post('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }),
    );
    expect(begun.headers.get('mcp-session-id')).toBe(session);
    await begun.text();
    const call = () => post('tools/call', { name: 'hello', arguments: {} }, named);
    const answer = await (await openSession(await open(), session))(call());
    expect(await answer.text()).toContain('"hello"');
    // Without the state, an instance does not know the session.
    expect((await (await openSession(await open(), randomUUID()))(call())).status).toBeGreaterThanOrEqual(
      400,
    );
  });
});

describe.each(SHARED)('Events of mcp-handler for a client of the AI SDK, on stores in %s', (_, share) => {
  it('are subscribed to at one instance, delivered by another, and received by a third', async () => {
    const [servers, clients] = [share(), share()];
    const owner = 'ann https://mcp.example';
    const events: unknown[] = [];
    const webhook = openWebhook(await clients(), owner, ({ data, cursor }) => events.push([data, cursor]));
    vi.stubGlobal('fetch', (url: string, init: RequestInit) => webhook(new Request(url, init)));
    onTestFinished(() => void vi.unstubAllGlobals());

    const client = await connect(await servers(), await clients(), owner);
    const { id } = await client.experimental_events.subscribe({
      name: 'note.changed',
      arguments: { notebook: 'diary' },
      delivery: { mode: 'webhook', url: 'https://hook.example/events' },
    });
    expect(await deliver(await servers(), 'diary', 'first', 'c1')).toBe(1);
    expect(await deliver(await servers(), 'else', 'not for us', 'c1')).toBe(0);
    expect(events).toEqual([[{ text: 'first' }, 'c1']]);

    // Another instance of the host refreshes and ends what the first has subscribed to.
    const other = await connect(await servers(), await clients(), owner);
    expect(await other.experimental_events.refresh({ id })).toMatchObject({ id, cursor: 'c1' });
    expect(await deliver(await servers(), 'diary', 'second', 'c2')).toBe(1);
    await other.experimental_events.unsubscribe({ id });
    expect(await deliver(await servers(), 'diary', 'third', 'c3')).toBe(0);
    expect(events).toHaveLength(2);
    await expect(client.experimental_events.refresh({ id })).rejects.toThrow('Unknown');
  });
});

/** A client of the AI SDK, at an instance of the server. */
async function connect(servers: Store, clients: Store, owner: string) {
  const handler = withMcpAuth(openHandler(servers), () => ({
    token: 't',
    clientId: 'c',
    scopes: [],
    extra: { user: 'ann' },
  }));
  const fetch = (url: string | URL | Request, init?: RequestInit) => handler(new Request(url, init));
  const client = await openClient(clients, owner, {
    type: 'http',
    url: 'https://mcp.example/mcp',
    headers: { authorization: 'Bearer t' },
    fetch,
  });
  onTestFinished(() => client.close());
  return client;
}
