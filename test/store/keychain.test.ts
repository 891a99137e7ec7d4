import { existsSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { storeContract } from 'mcp-valise/testing';
import { afterAll, describe, expect, it } from 'vitest';
import { generateKey } from '../../src/seal/index.ts';
import { openStore } from '../../src/store/index.ts';
import { keychainStore, storeIn } from '../../src/store/keychain/store.ts';
import { openVault } from '../../src/store/keychain/vault.ts';
import { uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { temporaryFolder, tsx } from './places.ts';
import { startSecretService } from './secret-service.ts';

const service = await startSecretService();
afterAll(() => service?.stop());

describe.skipIf(!service)('with a Secret Service', because('needs a Secret Service'), () => {
  storeContract(
    () => {
      const name = uniqueName();
      return { open: () => keychainStore(name), url: `keychain:${name}` };
    },
    { describe, it },
    // Each item costs the service some ten milliseconds.
    { name: 'keychain', execArgv: tsx, scale: 0.004 },
  );

  it('keeps one item for each entry, and nothing in the home but the lock', async () => {
    const name = uniqueName();
    const store = await openStore(`keychain:${name}`);
    await store.put('github', { token: 'secret' });
    await store.close();
    const { AsyncEntry } = await import('@napi-rs/keyring');
    const item = await new AsyncEntry(name, 'key:github').getSecret();
    expect(Buffer.from(item as number[]).toString()).toContain('"value":{"token":"secret"}');
    expect(readdirSync(`${homedir()}/.valise`).filter((file) => !file.endsWith('.lock'))).toEqual([]);
  });

  it('splits what is larger than an item may be, and leaves no part behind', async () => {
    const name = uniqueName();
    const vault = await openVault(name, 2400);
    const store = storeIn(name, vault);
    const large = { text: 'ä'.repeat(4000) };
    const { findCredentialsAsync } = await import('@napi-rs/keyring');
    const parts = async () =>
      (await findCredentialsAsync(name)).filter(({ account }) => account.startsWith('part:')).length;
    await store.put('large', large);
    expect(await parts()).toBe(4);
    expect((await store.get('large'))?.value).toEqual(large);
    await store.put('large', { text: 'ö'.repeat(2000) });
    expect(await parts()).toBe(2);
    await store.put('large', 'small');
    expect(await parts()).toBe(0);
    await store.put('large', large);
    await store.delete('large');
    expect(await parts()).toBe(0);
  });

  it('removes secrets that are over when it next writes beside them', async () => {
    const name = uniqueName();
    const store = await keychainStore(name);
    const { AsyncEntry } = await import('@napi-rs/keyring');
    await store.put('over', 'secret', { ttl: 0.05 });
    while (await store.get('over'));
    const item = new AsyncEntry(name, 'key:over');
    expect(await item.getSecret()).not.toBeNull();
    await store.put('other', 1);
    expect(await item.getSecret()).toBeNull();
    expect((await store.list('over')).keys).toEqual([]);
  });

  it('refuses what is no secret by its size, with a typed error', async () => {
    const store = await keychainStore(uniqueName());
    await expect(store.put('film', 'x'.repeat(2_000_000))).rejects.toMatchObject({ code: 'too-large' });
    expect(await store.get('film')).toBeUndefined();
  });

  it('does not use the file where there is a keychain', async () => {
    const { folder, remove } = temporaryFolder();
    const store = await keychainStore(uniqueName(), {
      keys: generateKey(),
      fallback: `${folder}/state.json`,
    });
    await store.put('github', 1);
    expect(existsSync(`${folder}/state.json`)).toBe(false);
    await store.close();
    remove();
  });

  it('goes on where the service dies of what it was asked', async () => {
    const store = await keychainStore(uniqueName());
    await store.put('github', 1);
    await service?.dieWhenAsked();
    expect((await store.get('github'))?.value).toBe(1);
  });

  it('fails with a typed error when the service goes away', async () => {
    const store = await keychainStore(uniqueName());
    await store.put('github', 1);
    await service?.stop();
    await expect(store.get('github')).rejects.toMatchObject({ code: 'no-keychain' });
  });
});
