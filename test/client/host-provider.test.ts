import { type Client, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { type AuthOptions, type ClientValise, openValise, type Store } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ask, MAJORS, openVault, signIn, type Vault } from './vault.ts';

const Http = { v1: HttpV1, v2: HttpV2 } as unknown as Record<'v1' | 'v2', typeof HttpV2>;

let vault: Vault;
let store: Store;
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

describe.each(MAJORS)('authProvider() in a stock $major transport', ({ major, make }) => {
  /** A host of its own: another Valise on the same store, and a transport that the host has made. */
  async function start(options: Partial<AuthOptions> = {}): Promise<Client> {
    const valise = await openValise({ store });
    const client = make();
    opened.push({ valise, client });
    const authProvider = valise.authProvider(vault.url, {
      redirect: (page) => {
        pages.push(page);
        return signIn(page, { name: 'alice' }).then(() => undefined);
      },
      fetch: vault.fetch,
      ...options,
    });
    await client.connect(
      new Http[major](new URL(vault.url), {
        authProvider: authProvider as never,
        fetch: vault.fetch,
      }) as never,
    );
    return client;
  }
  const refreshes = () => vault.sent.flatMap(({ refreshToken }) => refreshToken ?? []);

  it('authProvider() signs the user in, and the rejected call continues', async () => {
    const client = await start();
    expect(await ask(client, 'whoami')).toBe('alice');
    expect(pages).toHaveLength(1);
    expect(pages[0]?.searchParams.get('redirect_uri')).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/callback$/);
  });

  it('authProvider() lets the next process in without a sign-in', async () => {
    await start();
    const next = await start();
    expect(await ask(next, 'whoami')).toBe('alice');
    expect(pages).toHaveLength(1);
  });

  it('Two processes that find the token expired make one refresh request', async () => {
    const first = await start();
    await first.close();
    later(200);
    vault.sent.length = 0;
    const clients = await Promise.all([start(), start()]);
    expect(await Promise.all(clients.map((client) => ask(client, 'whoami')))).toEqual(['alice', 'alice']);
    expect(refreshes()).toHaveLength(1);
    expect(pages).toHaveLength(1);
  });

  it('authProvider() refreshes a token that was revoked before it expired, without the user', async () => {
    const client = await start();
    await vault.revoke('AccessToken');
    vault.sent.length = 0;
    expect(await ask(client, 'whoami')).toBe('alice');
    // The stream and the call may both have been refused: then there are two, one after the other.
    expect(new Set(refreshes()).size).toBe(refreshes().length);
    expect(refreshes().length).toBeGreaterThan(0);
    expect(pages).toHaveLength(1);
  });

  it('authProvider() asks the user again if the refresh token is rejected', async () => {
    const client = await start();
    await vault.revoke('AccessToken');
    await vault.revoke('RefreshToken');
    expect(await ask(client, 'whoami')).toBe('alice');
    expect(pages).toHaveLength(2);
  });

  it('authProvider() keeps tokens sealed and gives no refresh token to the host', async () => {
    const plain = memoryStore();
    const valise = await openValise({ store: plain, keys: generateKey() });
    const client = make();
    opened.push({ valise, client });
    const authProvider = valise.authProvider(vault.url, {
      redirect: (page) => signIn(page, { name: 'alice' }).then(() => undefined),
    });
    await client.connect(
      new Http[major](new URL(vault.url), { authProvider: authProvider as never }) as never,
    );
    const tokens = await authProvider.tokens();
    expect(tokens?.access_token).toBeTypeOf('string');
    expect(tokens).not.toHaveProperty('refresh_token');
    for (const key of (await plain.list('')).keys)
      expect(JSON.stringify((await plain.get(key))?.value)).not.toContain(tokens?.access_token);
  });
});

describe('DPoP tokens', () => {
  type Door = (valise: ClientValise, auth: AuthOptions) => Promise<Client>;
  const DOORS: readonly (readonly [string, Door])[] = [
    [
      'connect()',
      async (valise, auth) => {
        const client = MAJORS[1].make();
        await valise.connect(client, vault.url, { auth, fetch: vault.fetch });
        return client;
      },
    ],
    [
      'authProvider()',
      async (valise, auth) => {
        const client = MAJORS[1].make();
        const authProvider = valise.authProvider(vault.url, { ...auth, fetch: vault.fetch });
        await client.connect(new HttpV2(new URL(vault.url), { authProvider, fetch: vault.fetch }));
        return client;
      },
    ],
  ];

  it.each(DOORS)(
    'A client over %s refreshes DPoP tokens after a restart with the stored key',
    async (_, connect) => {
      const keys = generateKey();
      const start = async (): Promise<Client> => {
        const valise = await openValise({ store, keys });
        const client = await connect(valise, {
          redirect: (page) => {
            pages.push(page);
            return signIn(page, { name: 'alice' }).then(() => undefined);
          },
          dpop: true,
        });
        opened.push({ valise, client });
        return client;
      };
      const first = await start();
      expect(await ask(first, 'whoami')).toBe('alice');
      await first.close();
      later(200);
      vault.sent.length = 0;
      expect(await ask(await start(), 'whoami')).toBe('alice');
      expect(vault.short()).toContain('refresh_token');
      expect(pages).toHaveLength(1);
      const calls = vault.sent.filter(({ what }) => what === 'tools/call');
      expect(calls.map(({ authorization }) => authorization?.split(' ')[0])).toEqual(['DPoP']);
    },
  );

  it('The DPoP key is stored sealed', async () => {
    const valise = await openValise({ store, keys: generateKey() });
    const client = MAJORS[1].make();
    opened.push({ valise, client });
    const redirect = (page: URL) => signIn(page, { name: 'alice' }).then(() => undefined);
    await valise.connect(client, vault.url, { auth: { redirect, dpop: true } });
    for (const key of (await store.list('')).keys)
      expect(JSON.stringify((await store.get(key))?.value)).not.toContain('P-256');
  });

  it('The dpop option is refused for a client of v1, whose SDK cannot sign', async () => {
    const valise = await openValise({ store });
    const client = MAJORS[0].make();
    opened.push({ valise, client });
    const connecting = valise.connect(client, vault.url, { auth: { redirect: () => {}, dpop: true } });
    await expect(connecting).rejects.toMatchObject({ code: 'invalid-argument' });
  });
});
