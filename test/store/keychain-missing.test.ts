import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { generateKey } from '../../src/seal/index.ts';
import { openStore } from '../../src/store/index.ts';
import { keychainProblem, keychainStore } from '../../src/store/keychain/store.ts';
import { withoutPackages } from './elsewhere-packages.ts';
import { temporaryFolder } from './places.ts';

describe('without a keychain', () => {
  /** Runs with a bus that nobody is on. */
  async function withoutKeychain(use: (folder: string) => Promise<void>): Promise<void> {
    const { folder, remove } = temporaryFolder();
    const { DBUS_SESSION_BUS_ADDRESS: bus, HOME: home } = process.env;
    Object.assign(process.env, { DBUS_SESSION_BUS_ADDRESS: `unix:path=${folder}/no-bus`, HOME: folder });
    try {
      await use(folder);
    } finally {
      if (bus === undefined) delete process.env.DBUS_SESSION_BUS_ADDRESS;
      else process.env.DBUS_SESSION_BUS_ADDRESS = bus;
      process.env.HOME = home;
      remove();
    }
  }

  it.runIf(process.platform === 'linux')('refuses, says why and what to do, and keeps nothing', async () => {
    await withoutKeychain(async (folder) => {
      await expect(openStore('keychain:valise')).rejects.toMatchObject({
        code: 'no-keychain',
        message: expect.stringMatching(
          /cannot be used: .*Secret Service.*option keys.*Nothing is ever kept as plain text/s,
        ),
      });
      expect((await keychainProblem('valise'))?.code).toBe('no-keychain');
      // The folder of its lock may be there, and is empty.
      expect(readdirSync(folder, { recursive: true }).filter((file) => file !== '.valise')).toEqual([]);
    });
  });

  it.runIf(process.platform === 'linux')(
    'takes a sealed file where there are keys, and says so',
    async () => {
      await withoutKeychain(async (folder) => {
        const keys = generateKey();
        const notices: unknown[] = [];
        const store = await keychainStore('valise', { keys, onFallback: (notice) => notices.push(notice) });
        await store.put('github', { token: 'very secret' });
        await store.close();
        const file = `${folder}/.valise/keychain-valise.json`;
        expect(notices).toEqual([
          {
            file: '~/.valise/keychain-valise.json',
            reason: expect.objectContaining({ code: 'no-keychain' }),
          },
        ]);
        expect(readFileSync(file, 'utf8')).not.toContain('very secret');
        const again = await openStore('keychain:valise', { keys });
        expect((await again.get('github'))?.value).toEqual({ token: 'very secret' });
        await again.close();
        await expect(openStore('keychain:valise', { keys: generateKey() })).rejects.toMatchObject({
          code: 'store-wrong-key',
        });
      });
    },
  );

  it('says what to install where the package is missing', async () => {
    const outcome = await withoutPackages('store/index.ts', 'openStore', 'keychain:valise');
    expect(outcome).toMatchObject({ code: 'no-keychain' });
    expect(outcome.message).toMatch(/npm install @napi-rs\/keyring.*option keys/);
  });

  it('wants the name of a service', async () => {
    await expect(openStore('keychain:')).rejects.toMatchObject({ code: 'store-invalid' });
  });
});
