import { afterAll, describe, expect, it } from 'vitest';
import { keychainProblem, openKeychainItem } from '../../src/client/oauth/keychain.ts';
import { uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { startSecretService } from '../store/secret-service.ts';

const service = await startSecretService();
afterAll(() => service?.stop());

describe.skipIf(!service)('a keychain item', because('needs a Secret Service'), () => {
  it('Processes that create a keychain item at the same time all get the same text', async () => {
    const name = uniqueName();
    const texts = await Promise.all(
      Array.from({ length: 5 }, async (_, index) => {
        const item = await openKeychainItem(name, 'key');
        return item.create(() => `text ${index}`);
      }),
    );
    expect(new Set(texts).size).toBe(1);
    const item = await openKeychainItem(name, 'key');
    expect(await item.read()).toBe(texts[0]);
    expect(await (await openKeychainItem(name, 'other')).read()).toBeUndefined();
    const { AsyncEntry } = await import('@napi-rs/keyring');
    const stored = await new AsyncEntry(name, 'key').getSecret();
    expect(Buffer.from(stored as number[]).toString()).toBe(texts[0]);
  });

  it('Checking the keychain leaves no item behind', async () => {
    const name = uniqueName();
    expect(await keychainProblem(name)).toBeUndefined();
    const { findCredentialsAsync } = await import('@napi-rs/keyring');
    expect(await findCredentialsAsync(name)).toEqual([]);
  });

  it('A keychain item is read even if the service crashes once', async () => {
    const item = await openKeychainItem(uniqueName(), 'key');
    await item.create(() => 'text');
    await service?.dieWhenAsked();
    expect(await item.read()).toBe('text');
  });

  it('A keychain operation fails with a typed error if the service is gone', async () => {
    const item = await openKeychainItem(uniqueName(), 'key');
    await item.create(() => 'text');
    await service?.stop();
    await expect(item.read()).rejects.toMatchObject({ code: 'no-keychain' });
  });
});
