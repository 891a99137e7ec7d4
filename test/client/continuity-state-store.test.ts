import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@modelcontextprotocol/client';
import {
  asClientStateStore,
  type ClientStateStore,
  type ClientValise,
  type ClientValiseOptions,
  fileStore,
  type HttpOptions,
  openValise,
  type ServerMetadata,
  type TokenInfo,
} from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { count, openSessionful, type Sessionful } from './sessionful.ts';
import { ask, MAJORS, openVault, signIn, type Vault } from './vault.ts';

/** A host's own store as the seed describes it: two columns for the server, one for the session, one for the token. */
class Row implements ClientStateStore {
  readonly calls: string[] = [];
  session: string | undefined;
  token: string | undefined;
  version: string | undefined;
  capabilities: string | undefined;

  setSessionId(sessionId: string): void {
    this.calls.push('setSessionId');
    this.session = sessionId;
  }

  getSessionId(): string | undefined {
    return this.session;
  }

  clearSessionId(): void {
    this.calls.push('clearSessionId');
    this.session = undefined;
  }

  setAccessToken({ accessToken }: TokenInfo): void {
    this.calls.push('setAccessToken');
    this.token = accessToken;
  }

  getAccessToken(): TokenInfo | null {
    return this.token === undefined ? null : { accessToken: this.token };
  }

  clearAccessToken(): void {
    this.calls.push('clearAccessToken');
    this.token = undefined;
  }

  setServerMetadata({ protocolVersion, capabilitiesJson }: ServerMetadata): void {
    this.calls.push('setServerMetadata');
    this.version = protocolVersion;
    this.capabilities = capabilitiesJson;
  }

  async getServerMetadata(): Promise<ServerMetadata | undefined> {
    const { version, capabilities } = this;
    if (version === undefined || capabilities === undefined) return undefined;
    return { protocolVersion: version, capabilitiesJson: capabilities };
  }

  clearServerMetadata(): void {
    this.calls.push('clearServerMetadata');
    this.version = undefined;
    this.capabilities = undefined;
  }
}

const opened: { valise: ClientValise; client: Client }[] = [];
async function end(): Promise<void> {
  for (const { client, valise } of opened.splice(0)) {
    await client.close();
    await valise.close();
  }
}
afterEach(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  await end();
});

async function connect(
  client: Client,
  url: string,
  store: ClientValiseOptions['store'],
  options: HttpOptions = {},
): Promise<Client> {
  const valise = await openValise({ store, allowLocal: true });
  opened.push({ valise, client });
  await valise.connect(client, url, options);
  return client;
}

describe.each(MAJORS)("a $major client on a host's own store", ({ make }) => {
  let server: Sessionful;
  let row: Row;
  beforeEach(async () => {
    server = await openSessionful();
    row = new Row();
  });
  afterEach(() => server.close());

  it('[C-01][C-03] A client stores session and metadata once, and resumes with them after a restart', async () => {
    const one = await connect(make(), server.url, row);
    expect(await count(one)).toBe(1);
    expect(row.session).toBe(server.sessions()[0]);
    expect(row.version).toBe('2025-11-25');
    expect(JSON.parse(row.capabilities ?? '')).toEqual(one.getServerCapabilities());
    expect(row.calls).toEqual(['setSessionId', 'setServerMetadata']);
    await end();
    server.heard.length = 0;
    const two = await connect(make(), server.url, row);
    expect(await count(two)).toBe(2);
    expect(two.getServerCapabilities()).toMatchObject({ tools: { listChanged: true } });
    expect((await two.listTools()).tools).toHaveLength(2);
    expect(server.methods()).not.toContain('initialize');
  });

  it('[C-01][C-05] A client clears a session that is over and stores the new one', async () => {
    const client = await connect(make(), server.url, row);
    await count(client);
    const before = row.session;
    server.lose();
    row.calls.length = 0;
    expect(await count(client)).toBe(1);
    expect(row.calls).toEqual(['clearSessionId', 'clearServerMetadata', 'setSessionId', 'setServerMetadata']);
    expect(row.session).not.toBe(before);
    expect(row.session).toBe(server.sessions()[0]);
  });

  it('[C-03][C-08] A client clears metadata of a version that is no longer supported', async () => {
    row.session = 'of-long-ago';
    row.version = '1999-01-01';
    row.capabilities = '{}';
    const client = await connect(make(), server.url, row);
    expect(await count(client)).toBe(1);
    expect(row.calls).toContain('clearServerMetadata');
    expect(row.version).toBe('2025-11-25');
  });

  it.each(['', '{"tools":', 'tools, prompts', 'null', '[]'])(
    '[C-03] A client asks the server again if the stored capabilities are not a JSON object (%j)',
    async (text) => {
      await count(await connect(make(), server.url, row));
      await end();
      row.capabilities = text;
      const client = await connect(make(), server.url, row);
      expect(client.getServerCapabilities()).toMatchObject({ tools: { listChanged: true } });
      expect((await client.listTools()).tools).toHaveLength(2);
      expect(JSON.parse(row.capabilities)).toEqual(client.getServerCapabilities());
      expect(row.session).toBe(server.sessions().at(-1));
    },
  );

  it("A host's own store can serve one target, and refuses to be used for two", async () => {
    const store = memoryStore();
    const client = await connect(make(), server.url, store, { store: row });
    await count(client);
    expect(row.session).toBe(server.sessions()[0]);
    expect((await store.list('connection/')).keys).toEqual([]);
    await end();
    expect(await count(await connect(make(), server.url, store, { store: row }))).toBe(2);
    const valise = await openValise({ store: row, allowLocal: true });
    const [one, two] = [make(), make()];
    opened.push({ valise, client: one }, { valise, client: two });
    await valise.connect(one, server.url);
    await valise.connect(two, `${server.url}?other`).catch(() => {});
    const warnings: string[] = [];
    valise.on('warning', ({ what }) => warnings.push(what));
    await valise.connect(make(), `${server.url}?third`).catch(() => {});
    expect(warnings.join()).toContain('stores one connection');
    expect(row.session).toBe(server.sessions()[0]);
  });
});

describe.each(MAJORS)("a $major client whose token is in a host's own store", ({ make }) => {
  let vault: Vault;
  let pages: number;
  beforeEach(async () => {
    vi.spyOn(console, 'warn').mockImplementation(() => {});
    vault = await openVault({ ttl: 100 });
    pages = 0;
  });
  afterEach(() => vault.close());

  const signedIn = (store: ClientStateStore) =>
    connect(make(), vault.url, store, {
      fetch: vault.fetch,
      auth: {
        async redirect(page) {
          pages++;
          await signIn(page);
        },
      },
    });

  it('[C-02][C-06] A client stores the token, sends it after a restart, and clears it when it expires', async () => {
    const row = new Row();
    expect(await ask(await signedIn(row), 'increment')).toBe('1');
    expect(row.token).toBeTruthy();
    const { token } = row;
    await end();
    vault.sent.length = 0;
    const two = await signedIn(row);
    expect(await ask(two, 'increment')).toBe('2');
    expect(vault.sent.find(({ what }) => what === 'tools/call')?.authorization).toBe(`Bearer ${token}`);
    expect(pages).toBe(1);
    await end();
    // Only the token itself was kept: when it is over, the user signs in again.
    await vault.revoke('AccessToken');
    row.calls.length = 0;
    expect(await ask(await signedIn(row), 'increment')).toBe('3');
    expect(row.calls).toEqual(expect.arrayContaining(['clearAccessToken', 'setAccessToken']));
    expect(row.token).not.toBe(token);
    expect(pages).toBe(2);
  });

  it('[C-02] A client keeps everything that renews the token if the store keeps what it is given', async () => {
    let kept: TokenInfo | undefined;
    const whole: ClientStateStore = Object.assign(new Row(), {
      setAccessToken: (token: TokenInfo) => void (kept = JSON.parse(JSON.stringify(token)) as TokenInfo),
      getAccessToken: () => kept,
      clearAccessToken: () => void (kept = undefined),
    });
    expect(await ask(await signedIn(whole), 'increment')).toBe('1');
    expect(kept?.expiresAt).toBeGreaterThan(Date.now());
    await end();
    await vault.revoke('AccessToken');
    vault.sent.length = 0;
    expect(await ask(await signedIn(whole), 'increment')).toBe('2');
    expect(vault.short()).toContain('refresh_token');
    expect(vault.short()).not.toContain('register');
    expect(pages).toBe(1);
  });
});

describe.each(MAJORS)('Valise stores in the shape of the seed, for a $major client', ({ make }) => {
  let server: Sessionful;
  let folder: string;
  beforeEach(async () => {
    server = await openSessionful();
    folder = mkdtempSync(join(tmpdir(), 'valise-state-'));
  });
  afterEach(async () => {
    await end();
    rmSync(folder, { recursive: true, force: true });
    await server.close();
  });

  it('[C-11] A Valise store keeps everything in one line that only the owner can read', async () => {
    const store = fileStore(join(folder, 'mcp-state.json'));
    const client = await connect(make(), server.url, store);
    await count(client);
    expect(statSync(join(folder, 'mcp-state.json')).mode & 0o777).toBe(0o600);
    await end();
    await store.close();
    const again = fileStore(join(folder, 'mcp-state.json'));
    expect(await count(await connect(make(), server.url, again))).toBe(2);
    await end();
    await again.close();
  });

  it('[C-01][C-03] asClientStateStore() returns session and metadata, and accepts those of another source', async () => {
    const store = memoryStore();
    const state = asClientStateStore(store, server.url);
    expect(await state.getSessionId()).toBeUndefined();
    expect(await state.getServerMetadata()).toBeUndefined();
    const client = await connect(make(), server.url, store);
    await count(client);
    await end();
    const [session] = server.sessions();
    expect(await state.getSessionId()).toBe(session);
    const metadata = (await state.getServerMetadata()) as ServerMetadata;
    expect(metadata.protocolVersion).toBe('2025-11-25');
    expect(metadata.instructions).toBe('be kind');
    expect(JSON.parse(metadata.serverInfoJson ?? '')).toEqual({ name: 'sessionful', version: '9.0.0' });
    const copy = memoryStore();
    const other = asClientStateStore(copy, server.url);
    await other.setSessionId(session as string);
    await other.setServerMetadata(metadata);
    server.heard.length = 0;
    expect(await count(await connect(make(), server.url, copy))).toBe(2);
    expect(server.methods()).not.toContain('initialize');
    await end();
    await state.clearSessionId();
    expect(await state.getSessionId()).toBeUndefined();
    expect(await state.getServerMetadata()).toEqual(metadata);
    expect(await count(await connect(make(), server.url, store))).toBe(1);
    await end();
    await state.clearServerMetadata();
    expect(await state.getServerMetadata()).toBeUndefined();
    expect(await count(await connect(make(), server.url, store))).toBe(1);
  });

  it('[C-02] A Valise store sets, gets and clears an access token', async () => {
    const state = asClientStateStore(memoryStore(), server.url);
    expect(await state.getAccessToken()).toBeUndefined();
    await state.setAccessToken({ accessToken: 'mine', expiresAt: 5 });
    expect(await state.getAccessToken()).toMatchObject({ accessToken: 'mine', expiresAt: 5 });
    await state.clearAccessToken();
    expect(await state.getAccessToken()).toBeUndefined();
  });
});
