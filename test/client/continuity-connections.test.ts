import { inspect } from 'node:util';
import type { Client } from '@modelcontextprotocol/client';
import { type ClientValise, openValise } from 'mcp-valise/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Hosts, KINDS, openHosts } from './hosts.ts';
import { ask, MAJORS, signIn, vaultStage } from './vault.ts';

const stage = vaultStage();

async function keptTokens(): Promise<Record<string, string>> {
  const [key = ''] = (await stage.store.list('credentials/')).keys;
  const entry = await stage.store.get(key);
  return (entry?.value as { tokens?: Record<string, string> } | undefined)?.tokens ?? {};
}

describe.each(MAJORS)('stored connections of a $major client', ({ make }) => {
  let pages = 0;
  async function start(principal?: string): Promise<{ valise: ClientValise; client: Client }> {
    const valise = await openValise({ store: stage.store, principal, allowLocal: true });
    const client = make();
    stage.opened.push({ valise, client });
    const redirect = async (page: URL) => {
      pages++;
      await signIn(page);
    };
    await valise.connect(client, stage.vault.url, { fetch: stage.vault.fetch, auth: { redirect } });
    return { valise, client };
  }

  it('connections.list() contains no secrets', async () => {
    const { valise, client } = await start();
    await ask(client, 'increment');
    const list = await valise.connections.list();
    expect(list).toEqual([
      {
        target: stage.vault.url,
        principal: '',
        era: 'legacy',
        protocolVersion: '2025-11-25',
        session: expect.stringMatching(/^[\w-]{12}$/),
        server: { name: 'vault', version: '1.0.0' },
        savedAt: expect.any(Date),
        signedIn: true,
        renewable: true,
        issuer: new URL(stage.vault.url).origin,
        tokenExpiresAt: expect.any(Date),
        scope: 'vault',
        keptIn: 'store',
      },
    ]);
    const shown = inspect(list, { depth: 9 }) + JSON.stringify(list);
    const tokens = await keptTokens();
    for (const secret of [tokens['access_token'], tokens['refresh_token'], client.transport?.sessionId])
      expect(shown).not.toContain(secret);
    expect(await valise.connections.list(stage.vault.url)).toEqual(list);
    expect(await valise.connections.list('https://other.example.com/mcp')).toEqual([]);
  });

  it('Stored connections belong to one principal', async () => {
    await start('alice');
    const bob = await start('bob');
    expect((await bob.valise.connections.list()).map(({ principal }) => principal)).toEqual(['bob']);
    await bob.valise.connections.forget(stage.vault.url);
    expect(await bob.valise.connections.list()).toEqual([]);
    expect(await stage.opened[0]?.valise.connections.list()).toHaveLength(1);
  });

  it('forget() deletes a connection locally and sends nothing to the server', async () => {
    const { valise, client } = await start();
    await ask(client, 'increment');
    stage.vault.sent.length = 0;
    expect(await valise.connections.forget(stage.vault.url)).toBe(true);
    expect(stage.vault.sent).toEqual([]);
    expect((await stage.store.list('')).keys.filter((key) => !key.startsWith('jar/'))).toEqual([]);
    expect(await valise.connections.forget(stage.vault.url)).toBe(false);
  });

  it('logout() revokes and deletes a connection, and the next client signs in and starts over', async () => {
    const { valise, client } = await start();
    await ask(client, 'increment');
    const tokens = await keptTokens();
    expect(await valise.connections.logout(stage.vault.url)).toBe(true);
    expect(await valise.connections.list()).toEqual([]);
    for (const kind of ['access_token', 'refresh_token']) {
      const { status } = await fetch(stage.vault.url, {
        method: 'POST',
        headers: { authorization: `Bearer ${tokens[kind]}` },
      });
      expect(status).toBe(401);
    }
    pages = 0;
    const two = await start();
    expect(await ask(two.client, 'increment')).toBe('1');
    expect(pages).toBe(1);
  });

  it('logout() revokes the tokens that are stored when it deletes them, including those of a concurrent refresh', async () => {
    const { valise } = await start();
    const [key = ''] = (await stage.store.list('credentials/')).keys;
    const get = stage.store.get.bind(stage.store);
    stage.store.get = async (wanted) => {
      const entry = await get(wanted);
      if (wanted !== key || !entry) return entry;
      stage.store.get = get;
      const tokens = { access_token: 'fresh', refresh_token: 'fresher', token_type: 'Bearer' };
      await stage.store.put(key, { ...(entry.value as object), tokens });
      return entry;
    };
    const revoked: unknown[] = [];
    stage.vault.intercept = (_, { body }) => {
      if (body instanceof URLSearchParams && body.has('token')) revoked.push(body.get('token'));
      return undefined;
    };
    expect(await valise.connections.logout(stage.vault.url, { fetch: stage.vault.fetch })).toBe(true);
    expect(revoked).toEqual(['fresher', 'fresh']);
    expect(await get(key)).toBeUndefined();
  });

  it('logout() with an invalid argument changes nothing', async () => {
    const { valise } = await start();
    const kept = await valise.connections.list();
    stage.vault.sent.length = 0;
    for (const options of [
      { onRevoked: 'no function' },
      { fetch: 'no function' },
      { client: 'id' },
      { client: { id: 'mine' } },
      { onRevokd() {} },
      null,
    ])
      await expect(valise.connections.logout(stage.vault.url, options as never)).rejects.toMatchObject({
        code: 'invalid-argument',
      });
    expect(stage.vault.sent).toEqual([]);
    expect(await valise.connections.list()).toEqual(kept);
  });

  it('logout() deletes the connection even if the authorization server is unreachable', async () => {
    const { valise } = await start();
    const gone = async () => {
      throw new TypeError('fetch failed');
    };
    expect(await valise.connections.logout(stage.vault.url, { fetch: gone })).toBe(true);
    expect(await valise.connections.list()).toEqual([]);
  });
});

describe('stored connections of 2026-07-28', () => {
  let hosts: Hosts;
  beforeEach(async () => {
    hosts = await openHosts();
  });
  afterEach(() => hosts.close());

  it('connections.list() includes connections of 2026-07-28', async () => {
    const [, , modern] = KINDS;
    const { Client } = await import('@modelcontextprotocol/client');
    const valise = await openValise({ store: stage.store });
    const client = new Client(
      { name: 'x', version: '1' },
      { versionNegotiation: { mode: { pin: '2026-07-28' } } },
    );
    stage.opened.push({ valise, client });
    await valise.connect(client, 'https://shop.example.com/mcp', { fetch: hosts.fetch });
    expect(await valise.connections.list()).toMatchObject([
      {
        target: 'https://shop.example.com/mcp',
        era: modern.era,
        protocolVersion: '2026-07-28',
        server: { name: 'scripted', version: '1.0.0' },
        signedIn: false,
      },
    ]);
    expect((await valise.connections.list())[0]).not.toHaveProperty('session');
  });
});
