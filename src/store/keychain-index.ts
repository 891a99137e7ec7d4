import { isObject } from '../json.ts';
import { parseValue } from './entry-text.ts';
import type { Vault } from './keychain-vault.ts';

const NAME = 'index';

/** The names of the entries of a keychain, with the end of each (null where it has none): not every keychain can be searched. */
export interface KeychainIndex {
  set(key: string, expires: number | null): Promise<void>;
  remove(key: string): Promise<void>;
  /** The keys that live, in order. */
  living(now: number): Promise<string[]>;
}

export function keychainIndex(vault: Vault): KeychainIndex {
  const read = async (): Promise<Map<string, number | null>> => {
    const text = await vault.read(NAME);
    const json: unknown = text === undefined ? {} : parseValue(NAME, text);
    return new Map(Object.entries(isObject(json) ? (json as Record<string, number | null>) : {}));
  };
  const change = async (work: (keys: Map<string, number | null>) => boolean) => {
    const keys = await read();
    if (!work(keys)) return;
    // The moment to be rid of secrets that are over: no one may ever ask for them again.
    for (const [key, expires] of keys) {
      if (expires === null || expires > Date.now()) continue;
      await vault.remove(`key:${key}`);
      keys.delete(key);
    }
    await vault.write(NAME, textOf(keys));
  };
  return {
    set: (key, expires) =>
      change((keys) => {
        if (keys.get(key) === expires) return false;
        keys.set(key, expires);
        return true;
      }),
    remove: (key) => change((keys) => keys.delete(key)),
    living: async (now) =>
      [...(await read())]
        .filter(([, expires]) => expires === null || expires > now)
        .map(([key]) => key)
        .sort(),
  };
}

/** By hand, since a key may be `__proto__`, which cannot be set on an object the plain way. */
function textOf(keys: ReadonlyMap<string, number | null>): string {
  return `{${[...keys].map(([key, expires]) => `${JSON.stringify(key)}:${expires}`).join(',')}}`;
}
