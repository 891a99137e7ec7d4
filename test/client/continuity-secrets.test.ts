import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@modelcontextprotocol/client';
import { type ClientValise, type ClientValiseOptions, fileStore, openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Json } from '../../src/core/json.ts';
import { ask, MAJORS, openVault, signIn, type Vault } from './vault.ts';

const keys = generateKey();
let vault: Vault;
let folder: string;
const opened: { valise: ClientValise; client: Client }[] = [];
beforeAll(async () => {
  vi.spyOn(console, 'warn').mockImplementation(() => {});
  vault = await openVault();
});
afterAll(() => vault.close());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'valise-secrets-'));
});
afterEach(async () => {
  await end();
  rmSync(folder, { recursive: true, force: true });
});

async function end(): Promise<void> {
  for (const { client, valise } of opened.splice(0)) {
    await client.close();
    await valise.close();
  }
}

const [, { make }] = MAJORS;

async function start(options: ClientValiseOptions): Promise<Client> {
  const valise = await openValise(options);
  const client = make();
  opened.push({ valise, client });
  const redirect = async (page: URL) => void (await signIn(page));
  await valise.connect(client, vault.url, { fetch: vault.fetch, auth: { redirect } });
  return client;
}

const tokens = () =>
  vault.sent.flatMap(({ authorization }) => (authorization ? [authorization.split(' ')[1] as string] : []));

/** Everything in the folder, as one text. */
const onDisk = () =>
  readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), 'latin1'))
    .join('\n');

describe('secrets without a keychain', () => {
  beforeAll(() => {
    // No bus, no keychain.
    vi.stubEnv('DBUS_SESSION_BUS_ADDRESS', 'unix:path=/nonexistent/bus');
  });
  afterAll(() => vi.unstubAllEnvs());

  it('Secrets are sealed in the store with a key in a file next to it, which is created on first use', async () => {
    const options = { store: `sqlite:${join(folder, 'made', 'state.db')}` };
    vault.sent.length = 0;
    expect(await ask(await start(options), 'increment')).toMatch(/^\d+$/);
    await end();
    const file = join(folder, 'made', 'state.db.key');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, 'made')).mode & 0o777).toBe(0o700);
    const key = readFileSync(file, 'utf8');
    const stolen = readdirSync(join(folder, 'made'))
      .filter((name) => name !== 'state.db.key')
      .map((name) => readFileSync(join(folder, 'made', name), 'latin1'))
      .join('\n');
    for (const secret of [...tokens(), 'access_token', 'refresh_token']) expect(stolen).not.toContain(secret);
    vault.sent.length = 0;
    const client = await start(options);
    await ask(client, 'increment');
    expect(vault.short()).not.toContain('authorization_code');
    const [{ valise } = { valise: undefined }] = opened;
    expect(await valise?.connections.list()).toMatchObject([{ target: vault.url, signedIn: true }]);
    expect(await valise?.connections.logout(vault.url)).toBe(true);
    expect(await valise?.connections.list()).toEqual([]);
    expect(readFileSync(file, 'utf8')).toBe(key);
  });

  it('Concurrent first uses create one key', async () => {
    const store = `sqlite:${join(folder, 'state.db')}`;
    const principals = ['ann', 'ben', 'cem', 'dee'];
    await Promise.all(principals.map((principal) => start({ store, principal })));
    await end();
    vault.sent.length = 0;
    for (const principal of principals) await ask(await start({ store, principal }), 'increment');
    expect(vault.short()).not.toContain('authorization_code');
    expect(readdirSync(folder).filter((name) => name.includes('.key'))).toEqual(['state.db.key']);
  });

  it('Secrets whose key is missing are not shown, a warning says so, and a new key signs in next to them', async () => {
    const options = { store: `file:${join(folder, 'mcp-state.json')}` };
    await start(options);
    await end();
    renameSync(join(folder, 'mcp-state.json.key'), join(folder, 'elsewhere.key'));
    const valise = await openValise(options);
    const said: string[] = [];
    valise.on('warning', ({ what }) => said.push(what));
    expect(await valise.connections.list()).toMatchObject([{ signedIn: false }]);
    expect(said).toEqual([
      expect.stringMatching(/keychain cannot be used.*whose key is missing are not shown/),
    ]);
    await valise.close();
    await start(options);
    expect(await opened[0]?.valise.connections.list()).toMatchObject([{ signedIn: true }]);
  });

  it('A key file that others can read is refused, with the command that fixes it', async () => {
    const options = { store: `file:${join(folder, 'mcp-state.json')}` };
    await start(options);
    await end();
    const file = join(folder, 'mcp-state.json.key');
    chmodSync(file, 0o644);
    await expect(start(options)).rejects.toThrow(`chmod 600 ${file}`);
    writeFileSync(file, 'not a key', { mode: 0o600 });
    chmodSync(file, 0o600);
    await expect(start(options)).rejects.toMatchObject({ code: 'invalid-key' });
  });

  it('Secrets are sealed with the store if VALISE_CLIENT_KEYS is set, and never with VALISE_KEYS', async () => {
    const store = `file:${join(folder, 'mcp-state.json')}`;
    vi.stubEnv('VALISE_CLIENT_KEYS', keys);
    await start({ store });
    await end();
    expect(readdirSync(folder)).not.toContain('mcp-state.json.key');
    vi.stubEnv('VALISE_CLIENT_KEYS', undefined);
    // The server's are set in this process: see openVault.
    expect(process.env['VALISE_KEYS']).toBeTruthy();
    const failure = openValise({ store });
    await expect(failure).rejects.toMatchObject({ code: 'store-wrong-key' });
    await expect(failure).rejects.toThrow('VALISE_CLIENT_KEYS');
    await (await openValise({ store, keys })).close();
  });

  it('A missing key does not affect servers that need no secret', async () => {
    const valise = await openValise({ store: fileStore(join(folder, 'mcp-state.json')) });
    const client = make();
    opened.push({ valise, client });
    const open = async () => new Response(null, { status: 405 });
    await expect(
      valise.connect(client, 'https://open.example.com/mcp', { fetch: open, auth: { redirect() {} } }),
    ).rejects.toThrow('Error POSTing');
    expect(readdirSync(folder).filter((name) => name.includes('key'))).toEqual([]);
  });

  it.each([
    ['a file', (): ClientValiseOptions => ({ store: fileStore(join(folder, 'mcp-state.json'), { keys }) })],
    ['a file by its URL', () => ({ store: `file:${join(folder, 'mcp-state.json')}`, keys })],
    ['SQLite', () => ({ store: `sqlite:${join(folder, 'state.db')}`, keys })],
  ])('Secrets are sealed in %s, and a stolen store reveals nothing', async (_, options) => {
    vault.sent.length = 0;
    const client = await start(options());
    await ask(client, 'increment');
    const session = client.transport?.sessionId as string;
    await end();
    const stolen = onDisk();
    expect(stolen.length).toBeGreaterThan(100);
    const { host } = new URL(vault.url);
    for (const secret of [...tokens(), session, host, 'vault', 'access_token', '2025-11-25'])
      expect(stolen).not.toContain(secret);
    const again = await start(options());
    expect(await ask(again, 'increment')).toBe('2');
    await end();
    const { store, keys: own } = options();
    if (own === undefined) return;
    await expect(start({ store })).rejects.toMatchObject({ code: 'store-wrong-key' });
    await expect(start({ store, keys: generateKey() })).rejects.toMatchObject({ code: 'store-wrong-key' });
  });

  it('Secrets are plain text if the host chooses that', async () => {
    vault.sent.length = 0;
    const options = { store: `file:${join(folder, 'mcp-state.json')}`, insecurePlaintext: true };
    await ask(await start(options), 'increment');
    await end();
    expect(onDisk()).toContain(tokens()[0]);
  });

  it('Plain-text secrets are listed, revoked and deleted whatever the current setting is', async () => {
    const store = `file:${join(folder, 'mcp-state.json')}`;
    vault.sent.length = 0;
    await ask(await start({ store, insecurePlaintext: true }), 'increment');
    await end();
    const later = await openValise({ store });
    expect(await later.connections.list()).toMatchObject([{ target: vault.url, signedIn: true }]);
    const heard: string[] = [];
    expect(await later.connections.logout(vault.url, { onRevoked: (how) => heard.push(how) })).toBe(true);
    await later.close();
    expect(heard).toEqual(['revoked']);
    const [token] = tokens();
    expect(onDisk()).not.toContain(token);
    const headers = { authorization: `Bearer ${token}` };
    expect((await fetch(vault.url, { method: 'POST', headers })).status).toBe(401);
  });

  it('Secrets that cannot be looked up are not reported as deleted', async () => {
    const store = `file:${join(folder, 'mcp-state.json')}`;
    await start({ store });
    await end();
    rmSync(join(folder, 'mcp-state.json.key'));
    const valise = await openValise({ store });
    const said: string[] = [];
    valise.on('warning', ({ what }) => said.push(what));
    await valise.connections.logout(vault.url);
    expect(said).toEqual([expect.stringMatching(/keychain cannot be used.*stay/)]);
    await valise.close();
  });

  it('Tokens without their registration are reported neither as revoked nor as absent', async () => {
    const store = memoryStore();
    const redirect = async (page: URL) => void (await signIn(page));
    const valise = await openValise({ store });
    const client = make();
    opened.push({ valise, client });
    await valise.connect(client, vault.url, { fetch: vault.fetch, auth: { redirect } });
    const [key = ''] = (await store.list('credentials/')).keys;
    const { client: _, ...rest } = (await store.get(key))!.value as Record<string, Json>;
    await store.put(key, rest);
    const heard: string[] = [];
    await valise.connections.logout(vault.url, { onRevoked: (how) => heard.push(how) });
    expect(heard).toEqual(['refused']);
  });

  it('Secrets stay in memory if the store is in memory', async () => {
    await ask(await start({ store: memoryStore() }), 'increment');
  });

  it('Secrets go to the store that the host chooses', async () => {
    const secrets = memoryStore();
    const store = fileStore(join(folder, 'mcp-state.json'));
    vault.sent.length = 0;
    await ask(await start({ store, secrets }), 'increment');
    await end();
    expect((await secrets.list('credentials/')).keys).toHaveLength(1);
    expect(onDisk()).not.toContain(tokens()[0]);
    await store.close();
  });

  it('Opening Valise fails if the host requires a keychain and there is none', async () => {
    await expect(start({ store: memoryStore(), secrets: 'keychain' })).rejects.toMatchObject({
      code: 'no-keychain',
    });
  });
});

describe('a store that others can read', () => {
  it.skipIf(process.platform === 'win32')(
    'A store that others can read is refused, with the command that fixes it',
    async () => {
      const path = join(folder, 'mcp-state.json');
      const store = fileStore(path);
      await store.put('a', 1);
      await store.close();
      chmodSync(path, 0o644);
      await expect(start({ store: `file:${path}`, keys })).rejects.toMatchObject({
        code: 'store-denied',
        message: expect.stringContaining(`chmod 600 ${path}`),
      });
      expect(() => fileStore(path)).toThrow(`chmod 600 ${path}`);
    },
  );
});
