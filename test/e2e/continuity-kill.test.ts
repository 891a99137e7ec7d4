import { generateKey } from 'mcp-valise/seal';
import { openStore } from 'mcp-valise/store';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openVault, type Vault } from '../client/vault.ts';
import { service, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { soak, temporaryFolder } from '../store/places.ts';
import { startSecretService } from '../store/secret-service.ts';
import type { Orders } from './continuity-child.ts';
import { type Host, startHost } from './continuity-process.ts';

const ROUNDS = soak ? 20 : 1;
const CALLS = 50;
/** Lines until then: ready, page, count. */
const FIRST_COUNT = 3;

const { folder, remove } = temporaryFolder();
const redis = await service('redis');
const postgres = await service('postgres');
const keychain = await startSecretService();
let vault: Vault;
beforeAll(async () => {
  vi.spyOn(console, 'warn').mockImplementation(() => {});
  vault = await openVault();
});
afterAll(async () => {
  await vault.close();
  await keychain?.stop();
  remove();
});

type Place = () => Pick<Orders, 'store' | 'prefix' | 'keys'>;
const PLACES: readonly (readonly [string, Place | undefined])[] = [
  ['a file', () => ({ store: `file:${folder}/${uniqueName()}.json`, keys: generateKey() })],
  ['SQLite', () => ({ store: `sqlite:${folder}/${uniqueName()}.db`, keys: generateKey() })],
  ['Redis', redis ? () => ({ store: redis, prefix: `${uniqueName()}/`, keys: generateKey() }) : undefined],
  [
    'PostgreSQL',
    postgres ? () => ({ store: postgres, prefix: `${uniqueName()}/`, keys: generateKey() }) : undefined,
  ],
  ['keychain and SQLite', keychain ? () => ({ store: `sqlite:${folder}/${uniqueName()}.db` }) : undefined],
];

/** What the vault has seen of clients: sessions that were begun, grants that users gave, registrations. */
async function seen(): Promise<{ sessions: number; grants: number; clients: number }> {
  const count = async (prefix: string) => (await vault.store.list(prefix)).keys.length;
  return {
    sessions: await count('vault/session/'),
    grants: await count('vault/auth/Grant/'),
    clients: await count('vault/auth/Client/'),
  };
}

describe.each(PLACES)('a client that is killed again and again, with its state in %s', (_, place) => {
  it.skipIf(!place).each(['v1', 'v2'] as const)(
    '[C-10][C-12] a client that is killed repeatedly continues in its session, on %s, with one sign-in and one initialize',
    { timeout: soak ? 300_000 : 90_000, ...because('needs a server or a keychain that is not here') },
    async (sdk) => {
      // The keychain holds the credentials of a target, whatever the store: another one for each test.
      const url = `${vault.url}?${uniqueName()}`;
      const orders: Orders = { sdk, url, calls: CALLS, ...(place as Place)() };
      const before = await seen();
      const counts: number[] = [];
      let pages = 0;
      const told: string[] = [];
      let next: Host = startHost(orders);
      for (let round = 0; round <= ROUNDS; round++) {
        const host = next;
        await host.ready();
        const last = round === ROUNDS;
        // The next one loads while this one works, and begins where it was.
        if (!last) next = startHost(orders);
        host.begin();
        if (last) expect(await host.ended()).toBe('');
        else {
          // Not before its first count: a user who is still at the sign-in page is asked again, and rightly so.
          await host.heard(FIRST_COUNT + Math.floor(Math.random() * (CALLS - 5)));
          await host.kill();
        }
        const seenNow = host.counts();
        const [first] = seenNow;
        const lastBefore = counts.at(-1);
        // A call that was under way when the process was killed may have counted; nothing else can have.
        if (first !== undefined && lastBefore !== undefined)
          expect([lastBefore + 1, lastBefore + 2]).toContain(first);
        for (const [at, count] of seenNow.entries()) expect(count).toBe((first as number) + at);
        counts.push(...seenNow);
        pages += host.lines.filter((line) => line === 'page').length;
        told.push(`${host.lines[1]}, ${host.lines[2]} … ${host.lines.at(-1)} (${host.lines.length})`);
      }
      expect(new Set(counts).size).toBe(counts.length);
      expect(counts.length).toBeGreaterThanOrEqual(CALLS);
      expect(pages, told.join('; ')).toBe(1);
      const after = await seen();
      expect(after.sessions - before.sessions).toBe(1);
      expect(after.clients - before.clients).toBe(1);
      expect(after.grants - before.grants).toBe(1);
    },
  );
});

const SHARED = PLACES.filter(([name]) => soak || name === 'SQLite');
const SHARING = soak ? (['v1', 'v2'] as const) : (['v2'] as const);

describe.each(SHARED)('ten processes that share one store (%s) while the token expires', (_, place) => {
  it.skipIf(!place).each(SHARING)(
    '[C-09] ten processes refresh an expired token once, on %s, and nobody signs in again',
    { timeout: 120_000, ...because('needs a server or a keychain that is not here') },
    async (sdk) => {
      const url = `${vault.url}?${uniqueName()}`;
      const orders: Orders = { sdk, url, calls: 3, ...(place as Place)() };
      const first = startHost({ ...orders, calls: 1 });
      await first.ready();
      first.begin();
      expect(await first.ended()).toBe('');
      const hosts = Array.from({ length: 10 }, () => startHost(orders));
      await Promise.all(hosts.map((host) => host.ready()));
      await expire(orders);
      await vault.revoke('AccessToken');
      const before = await refreshes();
      const grants = await seen();
      for (const host of hosts) host.begin();
      expect(await Promise.all(hosts.map((host) => host.ended()))).toEqual(Array(10).fill(''));
      const counts = hosts.flatMap((host) => host.counts()).sort((one, other) => one - other);
      expect(counts).toEqual(Array.from({ length: 30 }, (_none, at) => at + 2));
      expect(hosts.flatMap((host) => host.lines).filter((line) => line === 'page')).toEqual([]);
      expect((await refreshes()) - before).toBe(1);
      expect(await seen()).toEqual(grants);
    },
  );
});

/** Moves the end of the kept token into the past. In a keychain it stays, and the server's 401 tells. */
async function expire({ store: at, prefix, keys }: Orders): Promise<void> {
  const store = await openStore(at, { ...(prefix !== undefined && { prefix }), keys });
  for (const key of (await store.list('credentials/')).keys) {
    const value = (await store.get(key))?.value as { tokens: object } | undefined;
    if (value) await store.put(key, { ...value, tokens: { ...value.tokens, expiresAt: Date.now() - 1000 } });
  }
  await store.close();
}

/** How often the authorization server has given a new refresh token for an old one. */
async function refreshes(): Promise<number> {
  const { keys } = await vault.store.list('vault/auth/RefreshToken/');
  const values = await Promise.all(keys.map((key) => vault.store.get(key)));
  return values.filter((entry) => (entry?.value as { consumed?: number } | undefined)?.consumed).length;
}
