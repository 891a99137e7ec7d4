import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { keychainProblem, openKeychainItem } from '../../src/client/oauth/keychain.ts';
import { withoutPackages } from '../store/elsewhere-packages.ts';
import { temporaryFolder } from '../store/places.ts';

describe('a host without a keychain', () => {
  it.runIf(process.platform === 'linux')(
    'Without a keychain, the error says why and what to do, and nothing is stored',
    async () => {
      const { folder, remove } = temporaryFolder();
      const { DBUS_SESSION_BUS_ADDRESS: bus, HOME: home } = process.env;
      Object.assign(process.env, { DBUS_SESSION_BUS_ADDRESS: `unix:path=${folder}/no-bus`, HOME: folder });
      try {
        const item = await openKeychainItem('valise', 'key');
        await expect(item.create(() => 'text')).rejects.toMatchObject({
          code: 'no-keychain',
          message: expect.stringMatching(
            /cannot be used: .*Secret Service.*option keys.*never stored as plain text/s,
          ),
        });
        expect((await keychainProblem('valise'))?.code).toBe('no-keychain');
        // The folder of its lock may be there, and is empty.
        const files = readdirSync(folder, { recursive: true }).filter((file) => file !== '.valise');
        expect(files.filter((file) => !String(file).endsWith('.lock'))).toEqual([]);
      } finally {
        if (bus === undefined) delete process.env.DBUS_SESSION_BUS_ADDRESS;
        else process.env.DBUS_SESSION_BUS_ADDRESS = bus;
        process.env.HOME = home;
        remove();
      }
    },
  );

  it('If the keychain package is missing, the error says what to install', async () => {
    const outcome = await withoutPackages('client/oauth/keychain.ts', 'openKeychainItem', 'valise');
    expect(outcome).toMatchObject({ code: 'no-keychain' });
    expect(outcome.message).toMatch(/npm install @napi-rs\/keyring.*option keys/);
  });
});
