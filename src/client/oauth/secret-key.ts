import { closeSync, readFileSync } from 'node:fs';
import { ValiseError } from '../../errors.ts';
import { generateKey, type Keyring, parseKeys } from '../../seal/index.ts';
import { replaceFile } from '../../store/atomic-write.ts';
import { fileLock } from '../../store/file/lock.ts';
import { fullPath, privateFile, quoted, statOf } from '../../store/private-file.ts';
import { openKeychainItem } from './keychain.ts';

/** A place for the key that seals credentials. */
export interface KeyPlace {
  /** Returns the existing key, if any. */
  read(): Promise<Keyring | undefined>;
  /** Returns the existing key, or creates one. Processes that do so at the same time get the same key. */
  make(): Promise<Keyring>;
}

const ABOUT = '# This key opens the sign-ins that Valise keeps in its store. Whoever has both can use them.';

/** Returns a key place in a file that only its owner can read. */
export function keyFile(path: string): KeyPlace {
  const read = async (): Promise<Keyring | undefined> => {
    if (!statOf(fullPath(path))) return undefined;
    const file = privateFile(path);
    const text = readFileSync(file, 'utf8').replace(/^#.*\n?/gm, '');
    return keysFrom(
      text,
      file,
      `Restore it from a copy; or remove it, and sign in again: rm ${quoted(file)}`,
    );
  };
  return {
    read,
    async make() {
      const file = privateFile(path);
      const lock = fileLock(`${file}.lock`);
      await lock.acquire();
      try {
        const text = `${ABOUT}\n${generateKey()}\n`;
        const found = await read();
        if (found) return found;
        const made = replaceFile(file, `${file}.${lock.nonce}`, text, { ready: () => lock.held() });
        if (made?.fd !== undefined) closeSync(made.fd);
      } finally {
        lock.release();
      }
      const key = await read();
      if (key) return key;
      throw new ValiseError('store-busy', `${file} could not be made: another process was at it.`, {
        next: 'Try again.',
      });
    },
  };
}

/** Returns a key place in the system's keychain. */
export function keychainKey(): KeyPlace {
  const open = () => openKeychainItem('mcp-valise', 'client-key');
  const parsed = (text: string) =>
    keysFrom(text, "The key in the system's keychain", 'Remove it, and sign in again.');
  return {
    async read() {
      const text = await (await open()).read();
      return text === undefined ? undefined : parsed(text);
    },
    make: async () => parsed(await (await open()).create(generateKey)),
  };
}

function keysFrom(text: string, from: string, next: string): Keyring {
  try {
    return parseKeys(text);
  } catch (cause) {
    throw new ValiseError('invalid-key', `${from} holds no key that can be used.`, { next, cause });
  }
}
