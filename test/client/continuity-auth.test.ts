import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Client } from '@modelcontextprotocol/client';
import { type AuthOptions, type ClientValise, openValise, type Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ask, MAJORS, openVault, type Sent, signIn, type Vault } from './vault.ts';

let vault: Vault;
let store: Store;
/** The pages that users were sent to. */
let pages: URL[];
let opened: { valise: ClientValise; client: Client }[];
beforeEach(async () => {
  vault = await openVault({ ttl: 100 });
  store = memoryStore();
  pages = [];
  opened = [];
  vi.spyOn(console, 'warn').mockImplementation(() => {});
});
afterEach(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  for (const { client, valise } of opened) {
    await client.close();
    await valise.close();
  }
  await vault.close();
});

const later = (seconds: number) => vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + seconds * 1000 });

interface Kept {
  readonly issuer: string;
  readonly tokens?: {
    readonly access_token: string;
    readonly refresh_token: string;
    readonly expiresAt: number;
  };
  readonly client: { readonly client_id: string; readonly redirect_uris: string[] };
}

async function kept(): Promise<Kept> {
  const [key = ''] = (await store.list('credentials/')).keys;
  return (await store.get(key))?.value as unknown as Kept;
}

describe.each(MAJORS)('a $major client that must sign in', ({ make }) => {
  async function start({
    auth = {},
    url = vault.url,
    principal,
  }: {
    auth?: Partial<AuthOptions>;
    url?: string;
    principal?: string;
  } = {}): Promise<Client> {
    const valise = await openValise({ store, ...(principal !== undefined && { principal }) });
    const client = make();
    opened.push({ valise, client });
    const redirect = (page: URL) => {
      pages.push(page);
      return signIn(page, { name: principal ?? 'alice' }).then(() => undefined);
    };
    await valise.connect(client, url, { fetch: vault.fetch, auth: { redirect, ...auth } });
    return client;
  }

  const crash = (client: Client) => client.close();

  it('[C-02][C-06] A client signs in once and sends the token with every request', async () => {
    const client = await start();
    expect(await ask(client, 'whoami')).toBe('alice');
    expect(pages).toHaveLength(1);
    const page = pages[0] as URL;
    expect(page.searchParams.get('code_challenge_method')).toBe('S256');
    expect(page.searchParams.get('state')?.length).toBeGreaterThanOrEqual(32);
    expect(page.searchParams.get('resource')).toBe(vault.url);
    expect(page.searchParams.get('redirect_uri')).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/callback$/);
    const { tokens, issuer, client: registration } = await kept();
    expect(issuer).toBe(new URL(vault.url).origin);
    expect(registration.client_id).toBe(page.searchParams.get('client_id'));
    expect(tokens?.expiresAt).toBeGreaterThan(Date.now() + 90_000);
    expect(tokens?.expiresAt).toBeLessThanOrEqual(Date.now() + 100_000);
    const calls = vault.sent.filter(({ what }) => what === 'tools/call');
    expect(calls.map(({ authorization }) => authorization)).toEqual([`Bearer ${tokens?.access_token}`]);
  });

  it('[C-12] A restarted client continues without sign-in, discovery, registration or `initialize`', async () => {
    const one = await start();
    expect(await ask(one, 'increment')).toBe('1');
    await crash(one);
    vault.sent.length = 0;
    const two = await start();
    expect(await ask(two, 'increment')).toBe('2');
    expect(vault.short()).toEqual(['tools/call']);
    expect(pages).toHaveLength(1);
  });

  it('A client refreshes its token ahead of expiry, without a rejected request', async () => {
    const client = await start();
    const before = await kept();
    later(85);
    vault.sent.length = 0;
    expect(await ask(client, 'increment')).toBe('1');
    expect(vault.short()).toEqual(['refresh_token', 'tools/call']);
    const posted = vault.sent.filter(({ verb }) => verb === 'POST');
    expect(posted.map(({ status }) => status)).toEqual([200, 200]);
    const after = await kept();
    expect(after.tokens?.access_token).not.toBe(before.tokens?.access_token);
    expect(after.tokens?.refresh_token).not.toBe(before.tokens?.refresh_token);
    expect(after.client).toEqual(before.client);
    later(10);
    vault.sent.length = 0;
    expect(await ask(client, 'increment')).toBe('2');
    expect(vault.short()).toEqual(['tools/call']);
  });

  it.each([1e20, -1, 0])(
    'A client treats the expiry of a token with expires_in %d as unknown',
    async (seconds) => {
      vault.intercept = async ({ pathname, href }, init) => {
        if (pathname !== '/token') return undefined;
        const tokens = (await (await fetch(href, init)).json()) as object;
        return Response.json({ ...tokens, expires_in: seconds });
      };
      const client = await start();
      await vault.revoke('AccessToken');
      expect(await ask(client, 'increment')).toBe('1');
      expect(vault.short()).toContain('refresh_token');
      expect((await kept()).tokens).not.toHaveProperty('expiresAt');
      const [{ valise } = expect.fail()] = opened;
      const [connection] = await valise.connections.list();
      expect(connection).toMatchObject({ signedIn: true, renewable: true });
      expect(connection).not.toHaveProperty('tokenExpiresAt');
    },
  );

  it('A client refreshes once for all calls that find the token about to expire', async () => {
    const client = await start();
    later(200);
    vault.sent.length = 0;
    const counts = await Promise.all([1, 2, 3, 4, 5].map(() => ask(client, 'increment')));
    expect(counts.sort()).toEqual(['1', '2', '3', '4', '5']);
    expect(vault.short().filter((what) => what === 'refresh_token')).toHaveLength(1);
    expect(pages).toHaveLength(1);
  });

  it('[C-06] A client refreshes once if the server answers 401', async () => {
    const client = await start();
    await vault.revoke('AccessToken');
    vault.sent.length = 0;
    expect(await ask(client, 'increment')).toBe('1');
    expect(vault.short()).toEqual(['tools/call', 'refresh_token', 'tools/call']);
    expect(pages).toHaveLength(1);
  });

  it('A process that resumes the session of another one refreshes once on a 401', async () => {
    await crash(await start());
    await vault.revoke('AccessToken');
    vault.sent.length = 0;
    expect(await ask(await start(), 'increment')).toBe('1');
    expect(vault.short().filter((what) => what === 'refresh_token')).toHaveLength(1);
    expect(vault.short()).not.toContain('initialize');
    expect(pages).toHaveLength(1);
  });

  it('A client signs in again if the refresh token is no longer accepted, and repeats the call', async () => {
    const client = await start();
    const before = await kept();
    await vault.revoke('AccessToken');
    await vault.revoke('RefreshToken');
    vault.sent.length = 0;
    expect(await ask(client, 'increment')).toBe('1');
    expect(pages).toHaveLength(2);
    expect(vault.short().filter((what) => what === 'refresh_token')).toHaveLength(1);
    expect(vault.short()).not.toContain('register');
    expect((await kept()).client).toEqual(before.client);
    expect((await kept()).tokens?.refresh_token).not.toBe(before.tokens?.refresh_token);
  });

  it.each([
    ['before the token expires', 0],
    ['after the token expires', 200],
  ])('A client registers again if the authorization server has forgotten it, %s', async (_, seconds) => {
    const one = await start();
    const before = await kept();
    await crash(one);
    for (const what of ['Client', 'RefreshToken', 'AccessToken'] as const) await vault.revoke(what);
    later(seconds);
    const two = await start();
    const counts = await Promise.all([1, 2].map(() => ask(two, 'increment')));
    expect(counts.sort()).toEqual(['1', '2']);
    expect(pages).toHaveLength(2);
    const after = await kept();
    expect(after.client.client_id).not.toBe(before.client.client_id);
    expect(pages[1]?.searchParams.get('client_id')).toBe(after.client.client_id);
    expect(after.tokens?.refresh_token).not.toBe(before.tokens?.refresh_token);
  });

  it('A client keeps a valid token and drops only the registration if an early refresh finds the client forgotten', async () => {
    const client = await start();
    const before = await kept();
    await vault.revoke('Client');
    later(85);
    vault.intercept = ({ pathname }) =>
      pathname === '/token' ? Response.json({ error: 'invalid_client' }, { status: 401 }) : undefined;
    expect(await ask(client, 'increment')).toBe('1');
    expect(pages).toHaveLength(1);
    const { client: registration, tokens } = await kept();
    expect(registration).toBeUndefined();
    expect(tokens).toEqual(before.tokens);
  });

  it.each(['invalid_client', 'unauthorized_client'])(
    'A client keeps the registration and the tokens that another process stores while a refresh is answered with %s',
    async (error) => {
      const client = await start();
      const [key = ''] = (await store.list('credentials/')).keys;
      const other = (await store.get(key))?.value as object;
      const { client: registration } = await kept();
      const newer = { ...registration, client_id: 'newer' };
      later(200);
      const tokens = {
        access_token: 'newer',
        token_type: 'Bearer',
        refresh_token: 'newer',
        expires_in: 100,
        expiresAt: Date.now() + 100_000,
      };
      vault.intercept = async ({ pathname }, { headers }) => {
        if (pathname === '/token') {
          await store.put(key, { ...other, client: newer, tokens } as never);
          return Response.json({ error }, { status: 401 });
        }
        const isNewer = new Headers(headers).get('authorization') === 'Bearer newer';
        return isNewer ? new Response('taken', { status: 500 }) : undefined;
      };
      await expect(ask(client, 'increment')).rejects.toThrow('taken');
      expect(await kept()).toMatchObject({ client: newer, tokens });
      expect(pages).toHaveLength(1);
    },
  );

  it('A client asks the user once, however many calls are rejected', async () => {
    const client = await start();
    await vault.revoke('AccessToken');
    await vault.revoke('RefreshToken');
    const counts = await Promise.all([1, 2, 3].map(() => ask(client, 'increment')));
    expect(counts.sort()).toEqual(['1', '2', '3']);
    expect(pages).toHaveLength(2);
  });

  it('Processes that start at the same time ask the user once', async () => {
    let back: () => void = () => {};
    const shown = new Promise<void>((resolve) => {
      back = resolve;
    });
    let refused = 0;
    vault.intercept = async ({ pathname }, init) => {
      if (pathname !== '/mcp' || new Headers(init.headers).has('authorization')) return undefined;
      // Everyone has been refused before the user has signed in.
      if (++refused === 3) back();
      return undefined;
    };
    const redirect = async (page: URL) => {
      pages.push(page);
      await shown;
      await signIn(page, { name: 'alice' });
      return undefined;
    };
    const clients = await Promise.all([1, 2, 3].map(() => start({ auth: { redirect } })));
    expect(await Promise.all(clients.map((client) => ask(client, 'whoami')))).toEqual(Array(3).fill('alice'));
    expect(pages).toHaveLength(1);
    expect((await kept()).client.client_id).toBe(pages[0]?.searchParams.get('client_id'));
  });

  it('A process asks the user itself if the sign-in of another process fails', async () => {
    const cannot = start({
      auth: {
        redirect: async (page) => {
          pages.push(page);
          await expect.poll(() => vault.short().filter((what) => what === 'register')).toHaveLength(2);
          throw new Error('no browser');
        },
      },
    });
    await expect.poll(() => pages).toHaveLength(1);
    const [, client] = await Promise.all([expect(cannot).rejects.toThrow('no browser'), start()]);
    expect(await ask(client, 'whoami')).toBe('alice');
    expect(pages).toHaveLength(2);
  });

  it.each(['the Valise', 'the connection'])(
    'A closed Valise stops waiting for the sign-in of another process and shows no page; secrets in a store of %s',
    async (whose) => {
      const secrets = memoryStore();
      const lease = secrets.lease.bind(secrets);
      let asked = 0;
      secrets.lease = async (key, ttl) => {
        if (!key.endsWith('/sign-in')) return lease(key, ttl);
        asked++;
        return undefined;
      };
      const valise = await openValise({ store, ...(whose === 'the Valise' && { secrets }) });
      const client = make();
      const redirect = (page: URL) => {
        pages.push(page);
        throw new Error('shown');
      };
      const own = whose === 'the connection' && { store: secrets };
      const connecting = valise.connect(client, vault.url, {
        fetch: vault.fetch,
        auth: { redirect },
        ...own,
      });
      const refused = expect(connecting).rejects.toMatchObject({ code: 'sign-in-failed' });
      await expect.poll(() => asked).toBeGreaterThan(0);
      await client.close();
      await valise.close();
      secrets.lease = lease;
      await refused;
      expect(pages).toEqual([]);
    },
  );

  it('[C-06] A client repeats a call that was rejected with the old token while another call got a new one', async () => {
    const client = await start();
    expect(await ask(client, 'increment')).toBe('1');
    await vault.revoke('AccessToken');
    const [renewed, over] = [new EventEmitter(), new EventEmitter()];
    const [isRenewed, isOver] = [once(renewed, 'now'), once(over, 'now')];
    let calls = 0;
    vault.intercept = async (_, { body }) => {
      if (!String(body).includes('tools/call')) return undefined;
      calls++;
      const call = calls;
      if (call === 2) await isRenewed;
      if (call === 3) renewed.emit('now');
      if (call === 3) await isOver;
      if (call === 4) over.emit('now');
      return undefined;
    };
    const first = ask(client, 'increment');
    const second = ask(client, 'increment').finally(() => over.emit('now'));
    expect((await Promise.all([first, second])).sort()).toEqual(['2', '3']);
    expect(vault.short().filter((what) => what === 'refresh_token')).toHaveLength(1);
    expect(pages).toHaveLength(1);
  });

  it('A client signs in again if the server rejects a fresh token, and gives up if that does not help', async () => {
    const client = await start();
    vault.sent.length = 0;
    const refused = () =>
      new Response(null, {
        status: 401,
        headers: {
          'www-authenticate': `Bearer resource_metadata="${new URL('/.well-known/oauth-protected-resource/mcp', vault.url)}"`,
        },
      });
    vault.intercept = ({ pathname }, { body }) =>
      pathname === '/mcp' && String(body).includes('tools/call') ? refused() : undefined;
    await expect(ask(client, 'increment')).rejects.toThrow(/401/);
    expect(pages).toHaveLength(2);
    const short = vault.short().filter((what) => what === 'refresh_token' || what === 'tools/call');
    expect(short.length).toBeLessThanOrEqual(6);
    expect(short.filter((what) => what === 'refresh_token').length).toBeLessThanOrEqual(2);
    // The first sign-in may have been all that was missing.
    let left = 1;
    vault.intercept = ({ pathname }, { body }) =>
      pathname === '/mcp' && String(body).includes('tools/call') && left-- > 0 ? refused() : undefined;
    expect(await ask(client, 'increment')).toBe('1');
  });

  it('A client signs in again if a refresh fails with an error that is not from OAuth', async () => {
    const client = await start();
    await vault.revoke('AccessToken');
    vault.intercept = (_url, init) =>
      isRefresh(init) ? Response.json({ message: 'expired' }, { status: 400 }) : undefined;
    expect(await ask(client, 'increment')).toBe('1');
    expect(pages).toHaveLength(2);
    await crash(client);
    await vault.revoke('AccessToken');
    expect(await ask(await start(), 'increment')).toBe('2');
    expect(pages).toHaveLength(3);
  });

  it.each([
    ['cannot be reached', () => Promise.reject(new TypeError('fetch failed'))],
    ['answers 500', () => new Response('down', { status: 500 })],
    ['answers 502 server_error', () => Response.json({ error: 'server_error' }, { status: 502 })],
    ['is busy', () => Response.json({ error: 'temporarily_unavailable' }, { status: 503 })],
    ['has too many requests', () => new Response(null, { status: 429 })],
  ])(
    '[C-06] A client opens no page if the refresh token may be valid: the error says that the authorization server %s, and a later call refreshes',
    async (_, answer) => {
      await crash(await start());
      await vault.revoke('AccessToken');
      let isDown = true;
      vault.intercept = (_url, init) => (isDown && isRefresh(init) ? answer() : undefined);
      const client = await start();
      const failure = ask(client, 'increment');
      await expect(failure).rejects.toMatchObject({ code: 'server-unreachable' });
      await expect(failure).rejects.toThrow(/authorization server.*Try again/s);
      expect((await kept()).tokens?.refresh_token).toEqual(expect.any(String));
      isDown = false;
      expect(await ask(client, 'increment')).toBe('1');
      expect(pages).toHaveLength(1);
    },
  );

  it('connect() says that the authorization server is unavailable if it finds out during a refresh', async () => {
    await crash(await start());
    await vault.revoke('AccessToken');
    for (const key of (await store.list('connection/')).keys) await store.delete(key);
    vault.intercept = (_url, init) => (isRefresh(init) ? new Response(null, { status: 502 }) : undefined);
    await expect(start()).rejects.toMatchObject({ code: 'server-unreachable' });
    expect(pages).toHaveLength(1);
  });

  it('[C-06] A client retries a refresh once if the connection to the authorization server breaks', async () => {
    const client = await start();
    await vault.revoke('AccessToken');
    let left = 1;
    vault.intercept = (_url, init) =>
      isRefresh(init) && left-- > 0 ? Promise.reject(new TypeError('fetch failed')) : undefined;
    expect(await ask(client, 'increment')).toBe('1');
    expect(pages).toHaveLength(1);
  });

  it.each([
    ['the server refused the token', async () => vault.revoke('AccessToken')],
    ['the token was about to expire', async () => later(85)],
  ])('A sign-out during a refresh stays in effect, and the new tokens are revoked; %s', async (_, make) => {
    await crash(await start());
    const redirect = () => {
      throw new Error('shown');
    };
    const client = await start({ auth: { redirect } });
    await expect.poll(() => vault.sent.filter(isStream)).toHaveLength(2);
    await make();
    const put = vi.spyOn(store, 'put');
    const revoked: unknown[] = [];
    let fresh: Record<string, string> = {};
    vault.intercept = async (url, init) => {
      const form = init.body instanceof URLSearchParams ? init.body : new URLSearchParams();
      if (form.has('token')) revoked.push(form.get('token'));
      if (form.get('grant_type') !== 'refresh_token') return undefined;
      const answer = await fetch(url, init);
      fresh = (await answer.clone().json()) as Record<string, string>;
      await opened[0]?.valise.connections.logout(vault.url, { fetch: vault.fetch });
      return answer;
    };
    await expect(ask(client, 'increment')).rejects.toThrow('shown');
    expect(fresh['access_token']).toEqual(expect.any(String));
    expect(JSON.stringify(put.mock.calls)).not.toContain(fresh['access_token']);
    expect(await kept()).not.toHaveProperty('tokens');
    expect(revoked).toContain(fresh['refresh_token']);
    expect(revoked).toContain(fresh['access_token']);
  });

  it.each(['another token', 'the same token'])(
    '[C-06] A client continues without a stream that is rejected after a refresh, even if the refresh returns %s',
    async (brings) => {
      const isGet = ({ url, verb }: Sent) => url.pathname === '/mcp' && verb === 'GET';
      vault.intercept = async ({ pathname }, { method, body }) => {
        if (pathname === '/mcp' && method === 'GET') return new Response(null, { status: 401 });
        const isRefresh = body instanceof URLSearchParams && body.get('grant_type') === 'refresh_token';
        return isRefresh && brings === 'the same token' ? Response.json((await kept()).tokens) : undefined;
      };
      const one = await start();
      await expect.poll(() => vault.sent.filter(isGet).length).toBeGreaterThanOrEqual(2);
      for (const count of ['1', '2', '3']) expect(await ask(one, 'increment')).toBe(count);
      expect(vault.sent.filter(isGet)).toHaveLength(2);
      expect(vault.short().filter((what) => what === 'refresh_token')).toHaveLength(1);
      await crash(one);
      // And in the next process, which opens the stream before it calls anything.
      vault.sent.length = 0;
      const two = await start();
      await expect.poll(() => vault.sent.filter(isGet).length).toBeGreaterThanOrEqual(2);
      for (const count of ['4', '5', '6']) expect(await ask(two, 'increment')).toBe(count);
      expect(vault.sent.filter(isGet)).toHaveLength(2);
      expect(vault.short().filter((what) => what === 'refresh_token')).toHaveLength(1);
      expect(pages).toHaveLength(1);
    },
  );

  it('A client uses the tokens that another process has refreshed and refreshes nothing itself', async () => {
    const one = await start();
    const two = await start();
    expect(pages).toHaveLength(1);
    later(200);
    vault.sent.length = 0;
    expect(await ask(one, 'increment')).toBe('1');
    expect(await ask(two, 'increment')).toBe('2');
    expect(vault.short().filter((what) => what === 'refresh_token')).toHaveLength(1);
    vi.useRealTimers();
  });

  it('A client never deletes tokens that another process has just written', async () => {
    const one = await start();
    const two = await start();
    // The streams ask for tokens, too.
    await expect.poll(() => vault.sent.filter(isStream)).toHaveLength(2);
    await vault.revoke('AccessToken');
    const { tokens } = await kept();
    const [key = ''] = (await store.list('credentials/')).keys;
    const before = (await store.get(key))?.value as object;
    const fresh = await freshTokens(vault, tokens?.refresh_token ?? '', (await kept()).client.client_id);
    let refused = 0;
    // The refresh of the first one comes too late: its token is used up, and another process has new ones.
    vault.intercept = async (_, { body }) => {
      if (!(body instanceof URLSearchParams) || body.get('grant_type') !== 'refresh_token') return undefined;
      refused++;
      await store.put(key, {
        ...before,
        tokens: { ...tokens, ...fresh, expires_in: 100, expiresAt: Date.now() + 100_000 } as never,
      });
      return Response.json({ error: 'invalid_grant' }, { status: 400 });
    };
    expect(await ask(one, 'increment')).toBe('1');
    expect(refused).toBe(1);
    expect((await kept()).tokens?.access_token).toBe(fresh.access_token);
    expect(await ask(two, 'increment')).toBe('2');
    expect(pages).toHaveLength(1);
  });

  it('Principals do not share tokens', async () => {
    const alice = await start();
    const bob = await start({ principal: 'bob' });
    expect(await ask(alice, 'whoami')).toBe('alice');
    expect(await ask(bob, 'whoami')).toBe('bob');
    expect(pages).toHaveLength(2);
    const [one, two] = pages.map((page) => page.searchParams.get('client_id'));
    expect(one).not.toBe(two);
  });

  it('A client drops the registration and sends no old token if the authorization server has changed', async () => {
    const client = await start();
    const before = await kept();
    const other = await openVault();
    const metadata = `${new URL('/.well-known/oauth-protected-resource/mcp', vault.url)}`;
    vault.intercept = ({ href, pathname }, { headers }) => {
      if (href === metadata)
        return Response.json({
          resource: vault.url,
          authorization_servers: [new URL(other.url).origin],
          scopes_supported: ['vault'],
        });
      if (
        pathname !== '/mcp' ||
        !new Headers(headers).get('authorization')?.includes(before.tokens?.access_token ?? '-')
      )
        return undefined;
      return new Response(null, {
        status: 401,
        headers: { 'www-authenticate': `Bearer resource_metadata="${metadata}"` },
      });
    };
    await vault.revoke('RefreshToken');
    vault.sent.length = 0;
    // The other authorization server knows nothing of this vault: what counts is what it gets to see.
    await expect(ask(client, 'increment')).rejects.toThrow();
    const elsewhere = vault.sent.filter(({ url }) => url.origin === new URL(other.url).origin);
    expect(elsewhere.some(({ url }) => url.pathname === '/reg')).toBe(true);
    expect(elsewhere.map(({ refreshToken }) => refreshToken)).not.toContain(before.tokens?.refresh_token);
    const after = await kept();
    expect(after.client?.client_id).not.toBe(before.client.client_id);
    expect(JSON.stringify(after)).not.toContain(before.tokens?.refresh_token);
    await other.close();
  });

  it('A client sends neither token nor session nor headers to another host, whatever redirects say', async () => {
    const got: unknown[] = [];
    const stranger = createServer((request, response) => {
      got.push(request.headers);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    }).listen(0, '127.0.0.1');
    await once(stranger, 'listening');
    const { port } = stranger.address() as AddressInfo;
    const valise = await openValise({ store });
    const client = make();
    opened.push({ valise, client });
    await valise.connect(client, vault.url, {
      fetch: vault.fetch,
      headers: { 'x-api-key': 'mine' },
      auth: { redirect: (page) => signIn(page).then(() => undefined) },
    });
    for (const status of [301, 302, 303, 307, 308]) {
      vault.intercept = ({ pathname }, { body }) =>
        pathname === '/mcp' && String(body).includes('tools/call')
          ? new Response(null, { status, headers: { location: `http://localhost:${port}/mcp` } })
          : undefined;
      await expect(ask(client, 'increment')).rejects.toThrow();
    }
    expect(got).toEqual([]);
    stranger.close();
    expect(vault.sent.filter(({ url }) => url.port === String(port))).toEqual([]);
  });

  it('A client registers again if the port of its registration is in use', async () => {
    const client = await start();
    const before = (await kept()).client;
    const { port } = new URL(before.redirect_uris[0] ?? '');
    const busy = createServer().listen(Number(port), '127.0.0.1');
    await once(busy, 'listening');
    await vault.revoke('AccessToken');
    await vault.revoke('RefreshToken');
    expect(await ask(client, 'increment')).toBe('1');
    expect((await kept()).client.client_id).not.toBe(before.client_id);
    busy.close();
  });

  it('A client listens on the registered port again', async () => {
    const client = await start();
    await vault.revoke('AccessToken');
    await vault.revoke('RefreshToken');
    await ask(client, 'increment');
    const [one, two] = pages.map((page) => page.searchParams.get('redirect_uri'));
    expect(two).toBe(one);
  });

  it('A client accepts a callback that the host has received itself', async () => {
    const redirectUrl = 'https://host.example.com/back';
    const client = await start({
      auth: {
        redirectUrl,
        redirect: (page) => signIn(page, { until: redirectUrl }),
      },
    });
    expect(await ask(client, 'whoami')).toBe('tester');
    expect((await kept()).client.redirect_uris).toEqual([redirectUrl]);
  });

  it.each([
    ['a state that is not ours', { code: 'x', state: 'other' }, 'sign-in-failed'],
    ['no code', {}, 'sign-in-failed'],
    ['an error', { error: 'access_denied' }, 'sign-in-refused'],
    ['another issuer', { code: 'x', iss: 'https://evil.example.com' }, 'sign-in-failed'],
  ])('A client rejects a callback with %s', async (_, answer, code) => {
    const redirect = (page: URL) => {
      const back = new URL(page.searchParams.get('redirect_uri') ?? '');
      back.search = String(
        new URLSearchParams({ state: page.searchParams.get('state') ?? '', ...(answer as object) }),
      );
      return back;
    };
    await expect(start({ auth: { redirect } })).rejects.toMatchObject({ code });
    expect(vault.short()).not.toContain('authorization_code');
  });

  it('A client respects a denied sign-in for a minute and then asks again', async () => {
    await crash(await start());
    let isWilling = false;
    const redirect = async (page: URL) => {
      pages.push(page);
      if (isWilling) return void (await signIn(page, { name: 'alice' }));
      const back = new URL(page.searchParams.get('redirect_uri') ?? '');
      back.searchParams.set('state', page.searchParams.get('state') ?? '');
      back.searchParams.set('error', 'access_denied');
      return back;
    };
    const client = await start({ auth: { redirect } });
    for (const what of ['RefreshToken', 'AccessToken'] as const) await vault.revoke(what);
    for (let i = 0; i < 3; i++) await expect(ask(client, 'whoami')).rejects.toThrow('access_denied');
    expect(pages).toHaveLength(2);
    isWilling = true;
    later(61);
    expect(await ask(client, 'whoami')).toBe('alice');
    expect(pages).toHaveLength(3);
  });

  it('A denied sign-in applies to all calls that wait for it, and later calls ask again', async () => {
    const waiting = new EventEmitter();
    const redirect = async (page: URL) => {
      pages.push(page);
      if (pages.length > 1) return void (await signIn(page, { name: 'alice' }));
      const isWaiting = once(waiting, 'elsewhere');
      others.push(refused(), refused());
      await isWaiting;
      const back = new URL(page.searchParams.get('redirect_uri') ?? '');
      back.searchParams.set('state', page.searchParams.get('state') ?? '');
      back.searchParams.set('error', 'access_denied');
      return back;
    };
    const others: Promise<void>[] = [];
    let waits = 0;
    const refused = async () => {
      const valise = await openValise({ store });
      const client = make();
      opened.push({ valise, client });
      valise.on('sign-in-elsewhere', () => ++waits === 2 && waiting.emit('elsewhere'));
      const connecting = valise.connect(client, vault.url, { fetch: vault.fetch, auth: { redirect } });
      await expect(connecting).rejects.toMatchObject({ code: 'sign-in-refused' });
    };
    await refused();
    await Promise.all(others);
    expect(pages).toHaveLength(1);
    expect(await ask(await start({ auth: { redirect } }), 'whoami')).toBe('alice');
    expect(pages).toHaveLength(2);
  });

  it('The listener rejects unrelated requests and keeps waiting', async () => {
    const statuses: number[] = [];
    const redirect = async (page: URL) => {
      const back = new URL(page.searchParams.get('redirect_uri') ?? '');
      const knock = async (change: (url: URL) => void, init: RequestInit = {}) => {
        const url = new URL(back);
        url.searchParams.set('state', page.searchParams.get('state') ?? '');
        url.searchParams.set('code', 'forged');
        change(url);
        statuses.push((await fetch(url, init)).status);
      };
      await knock((url) => url.searchParams.set('state', 'guessed'));
      await knock((url) => url.searchParams.delete('state'));
      await knock((url) => (url.pathname = '/other'));
      await knock((url) => (url.hostname = 'localhost'));
      await knock(() => {}, { method: 'POST' });
      await signIn(page);
    };
    const client = await start({ auth: { redirect } });
    expect(await ask(client, 'whoami')).toBe('tester');
    expect(statuses).toEqual([400, 400, 404, 404, 404]);
  });

  it('A client leaves no listener open if it cannot register', async () => {
    const backs: string[] = [];
    vault.intercept = ({ pathname }, { body }) => {
      if (pathname !== '/reg') return undefined;
      backs.push(...(JSON.parse(String(body)) as { redirect_uris: string[] }).redirect_uris);
      return Response.json({ error: 'invalid_client_metadata' }, { status: 400 });
    };
    await expect(start()).rejects.toThrow();
    expect(backs).not.toEqual([]);
    for (const back of backs) await expect(fetch(back)).rejects.toThrow('fetch failed');
  });

  it('A client stops waiting after the timeout and registers again the next time', async () => {
    await expect(start({ auth: { redirect: () => {}, timeout: 0.2 } })).rejects.toMatchObject({
      code: 'timeout',
    });
    vault.sent.length = 0;
    expect(await ask(await start(), 'increment')).toBe('1');
    expect(vault.short()).toContain('register');
  });

  it('Closing Valise during connect() ends the sign-in, and the next connection can sign in', async () => {
    const shown = new EventEmitter();
    const page = once(shown, 'page');
    const waiting = start({ auth: { redirect: () => void shown.emit('page') } });
    const left = expect(waiting).rejects.toMatchObject({ code: 'sign-in-failed' });
    await page;
    await opened[0]?.valise.close();
    await left;
    expect(await ask(await start(), 'whoami')).toBe('alice');
  });

  it('Closing the client while a call waits for its user ends the sign-in, and the next connection can sign in', async () => {
    await crash(await start());
    const shown = new EventEmitter();
    const page = once(shown, 'page');
    const client = await start({ auth: { redirect: () => void shown.emit('page') } });
    for (const what of ['RefreshToken', 'AccessToken'] as const) await vault.revoke(what);
    const left = expect(ask(client, 'increment')).rejects.toThrow();
    await page;
    await client.close();
    await left;
    expect(await ask(await start(), 'whoami')).toBe('alice');
  });

  it('A client surfaces the error of a host that cannot show the page', async () => {
    const redirect = () => {
      throw new Error('no browser here');
    };
    await expect(start({ auth: { redirect } })).rejects.toThrow('no browser here');
  });

  it.each(['javascript:alert(1)', 'file:///etc/passwd', 'http://auth.example.com/authorize'])(
    'A client does not send the user to %s',
    async (endpoint) => {
      const shown: URL[] = [];
      vault.intercept = ({ pathname, origin }) => {
        if (!pathname.startsWith('/.well-known/o') || pathname.includes('protected')) return undefined;
        return Response.json({
          issuer: origin,
          authorization_endpoint: endpoint,
          token_endpoint: `${origin}/token`,
          registration_endpoint: `${origin}/reg`,
          response_types_supported: ['code'],
          code_challenge_methods_supported: ['S256'],
        });
      };
      await expect(start({ auth: { redirect: (page: URL) => shown.push(page) } })).rejects.toThrow();
      expect(shown).toEqual([]);
    },
  );

  it('A client signs in again, and at most once, if the server requires more than the token allows', async () => {
    const client = await start();
    const challenge = { 'www-authenticate': 'Bearer error="insufficient_scope", scope="openid vault"' };
    let left = 1;
    vault.intercept = ({ pathname }, { body }) =>
      pathname === '/mcp' && String(body).includes('tools/call') && left-- > 0
        ? new Response(null, { status: 403, headers: challenge })
        : undefined;
    expect(await ask(client, 'increment')).toBe('1');
    expect(pages).toHaveLength(2);
    expect(pages[1]?.searchParams.get('scope')?.split(' ').sort()).toEqual(['openid', 'vault']);
    left = 99;
    await expect(ask(client, 'increment')).rejects.toThrow('403');
    expect(pages.length).toBeLessThanOrEqual(3);
  });

  it.each([
    ['says', undefined],
    ['does not say', { scope: undefined }],
  ])(
    'A client keeps the granted scopes if the server requires more, so that pages do not alternate, if the authorization server %s which scopes it granted',
    async (_, said) => {
      const wanted = { increment: 'vault', whoami: 'openid' };
      const scopeOf = new Map<string | null, string>();
      vault.intercept = async (url, init) => {
        if (url.pathname === '/token') {
          const answer = (await (await fetch(url, init)).json()) as { access_token: string; scope: string };
          scopeOf.set(`Bearer ${answer.access_token}`, answer.scope);
          return Response.json({ ...answer, ...said });
        }
        const [, name] = /"name":"(increment|whoami)"/.exec(String(init.body)) ?? [];
        const scope = wanted[name as keyof typeof wanted];
        const granted = scopeOf.get(new Headers(init.headers).get('authorization'));
        if (scope === undefined || !granted || granted.split(' ').includes(scope)) return undefined;
        const challenge = `Bearer error="insufficient_scope", scope="${scope}"`;
        return new Response(null, { status: 403, headers: { 'www-authenticate': challenge } });
      };
      const client = await start();
      for (const name of ['increment', 'whoami', 'increment', 'whoami'] as const) await ask(client, name);
      const scopes = pages.map((page) => page.searchParams.get('scope')?.split(' ').sort().join(' '));
      expect(scopes).toEqual(['vault', 'openid vault']);
      const { scope } = (await kept()).client as { scope?: string };
      expect(scope?.split(' ').sort()).toEqual(['openid', 'vault']);
    },
  );

  it('A client uses a pre-registered client and shows its secret only to its own authorization server', async () => {
    const port = await freePort();
    const back = `http://127.0.0.1:${port}/callback`;
    const { client_id: id } = await register(vault, back);
    const issuer = new URL(vault.url).origin;
    const client = await start({ auth: { client: { id, issuer }, port } });
    expect(await ask(client, 'whoami')).toBe('alice');
    expect(pages[0]?.searchParams.get('client_id')).toBe(id);
    expect(pages[0]?.searchParams.get('redirect_uri')).toBe(back);
    expect(vault.short()).not.toContain('register');
    await crash(client);
    vault.sent.length = 0;
    store = memoryStore();
    const elsewhere = { client: { id, issuer: 'https://auth.example.com' }, port };
    await expect(start({ auth: elsewhere })).rejects.toThrow();
    expect(vault.sent.every(({ url }) => !url.href.includes(id))).toBe(true);
    expect(pages).toHaveLength(1);
  });

  it('Inspecting a client shows no secret', async () => {
    const { inspect } = await import('node:util');
    const client = await start();
    await ask(client, 'increment');
    const { tokens } = await kept();
    const shown = inspect([client, opened], { depth: 12, showHidden: true });
    expect(shown).not.toContain(tokens?.refresh_token);
    const target = opened[0]?.valise.transport(vault.url, {
      headers: { authorization: 'Bearer hidden-header' },
      auth: {
        redirect() {},
        client: { id: 'me', secret: 'hidden-secret', issuer: 'https://auth.example.com' },
      },
    });
    expect(inspect(target, { depth: 12 }) + JSON.stringify(target)).not.toContain('hidden');
    const program = opened[0]?.valise.transport({ command: 'node', env: { TOKEN: 'hidden-token' } });
    expect(inspect(program, { depth: 12 })).not.toContain('hidden');
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function register(at: Vault, redirect: string): Promise<{ client_id: string }> {
  const response = await fetch(new URL('/reg', at.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      redirect_uris: [redirect],
      grant_types: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_method: 'none',
      scope: 'vault',
    }),
  });
  return (await response.json()) as { client_id: string };
}

const isRefresh = ({ body }: RequestInit) =>
  body instanceof URLSearchParams && body.get('grant_type') === 'refresh_token';

const isStream = ({ url, verb, status }: Sent) => url.pathname === '/mcp' && verb === 'GET' && status !== 401;

/** What a refresh by another process brings. */
async function freshTokens(at: Vault, refreshToken: string, clientId: string) {
  const response = await fetch(new URL('/token', at.url), {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      client_id: clientId,
    }),
  });
  const fresh = (await response.json()) as { access_token: string; refresh_token: string };
  expect(fresh).toMatchObject({ access_token: expect.any(String), refresh_token: expect.any(String) });
  return fresh;
}
