import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@modelcontextprotocol/client';
import { type ClientValise, openValise } from 'mcp-valise/client';
import { openStore } from 'mcp-valise/store';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { because } from '../skip.ts';
import { startSecretService } from '../store/secret-service.ts';
import { ask, MAJORS, openVault, signIn } from './vault.ts';

vi.spyOn(console, 'warn').mockImplementation(() => {});
const service = await startSecretService();
const vault = await openVault();
afterAll(async () => {
  await vault.close();
  await service?.stop();
});

const needed = because('needs a Secret Service');

describe.skipIf(!service).each(MAJORS)('secrets of a $major client with a keychain', needed, ({ make }) => {
  it('[C-10] Secrets are sealed in the store with a key from the keychain', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'valise-secrets-'));
    const store = `sqlite:${join(folder, 'state.db')}`;
    const process = async (work: (client: Client, valise: ClientValise) => Promise<void>) => {
      const valise = await openValise({ store });
      const client = make();
      const redirect = async (page: URL) => void (await signIn(page));
      await valise.connect(client, vault.url, { fetch: vault.fetch, auth: { redirect } });
      await work(client, valise);
      await client.close();
      await valise.close();
    };
    vault.sent.length = 0;
    await process(async (client) => expect(await ask(client, 'increment')).toBe('1'));
    const plain = await openStore(store);
    expect((await plain.list('credentials/')).keys).toEqual([]);
    expect((await plain.list('secrets/')).keys).toHaveLength(1);
    expect((await plain.list('connection/')).keys).toHaveLength(1);
    await plain.close();
    const token = vault.sent.at(-1)?.authorization?.split(' ')[1];
    expect(token).toBeTruthy();
    expect(readdirSync(folder)).not.toContain('state.db.key');
    for (const name of readdirSync(folder))
      expect(readFileSync(join(folder, name), 'latin1')).not.toContain(token);
    vault.sent.length = 0;
    await process(async (client, { connections }) => {
      expect(await ask(client, 'increment')).toBe('2');
      expect(vault.short()).toEqual(['tools/call']);
      expect(await connections.list()).toMatchObject([{ target: vault.url, signedIn: true }]);
      expect(await connections.logout(vault.url)).toBe(true);
      expect(await connections.list()).toEqual([]);
    });
    rmSync(folder, { recursive: true, force: true });
  });

  it.each([
    ['stored as plain text before there was a keychain', { insecurePlaintext: true }, {}],
    ['stored in the keychain before plain text was chosen', {}, { insecurePlaintext: true }],
  ])('Secrets are listed and revoked if they were %s', async (_, before, later) => {
    const folder = mkdtempSync(join(tmpdir(), 'valise-secrets-'));
    const store = `sqlite:${join(folder, 'state.db')}`;
    const first = await openValise({ store, ...before });
    const client = make();
    const redirect = async (page: URL) => void (await signIn(page));
    vault.sent.length = 0;
    await first.connect(client, vault.url, { fetch: vault.fetch, auth: { redirect } });
    await ask(client, 'increment');
    await client.close();
    await first.close();
    const authorization = vault.sent.at(-1)?.authorization as string;
    const second = await openValise({ store, ...later });
    expect(await second.connections.list()).toMatchObject([{ target: vault.url, signedIn: true }]);
    const heard: string[] = [];
    expect(await second.connections.logout(vault.url, { onRevoked: (how) => heard.push(how) })).toBe(true);
    expect(heard).toEqual(['revoked']);
    expect(await second.connections.list()).toEqual([]);
    expect((await fetch(vault.url, { method: 'POST', headers: { authorization } })).status).toBe(401);
    await second.close();
    rmSync(folder, { recursive: true, force: true });
  });
});
