import { messageOf, ValiseError } from '../../errors.ts';
import { type InLineOptions, inLine } from './keychain-queue.ts';

/** One secret in the system keychain. */
interface Item {
  getSecret(): Promise<readonly number[] | Uint8Array | null | undefined>;
  setSecret(secret: Uint8Array): Promise<void>;
  deleteCredential(): Promise<boolean>;
}

interface Library {
  AsyncEntry: new (service: string, account: string, options: object) => Item;
}

/** A short text in the system keychain: Keychain, Credential Manager or Secret Service. */
export interface KeychainItem {
  read(): Promise<string | undefined>;
  /** Writes the text that `make` returns if there is none. Returns the text that is there then, for all processes. */
  create(make: () => string): Promise<string>;
}

/** Opens an item of the keychain. Throws `no-keychain` if the library is missing; the first operation shows the rest. */
export async function openKeychainItem(service: string, name: string): Promise<KeychainItem> {
  const { AsyncEntry } = await load();
  // Only persistent storage qualifies, so on Linux this is never the kernel keyring, which a restart clears.
  const open = () => new AsyncEntry(service, name, { linux: { store: 'secret-service' } });
  return {
    read: () => typed(() => textIn(open()), { looks: true }),
    create: (make) =>
      typed(
        async () => {
          const item = open();
          const found = await textIn(item);
          if (found !== undefined) return found;
          await item.setSecret(Buffer.from(make()));
          const written = await textIn(item);
          if (written === undefined) throw new Error('what was written could not be read');
          return written;
        },
        { exclusive: true },
      ),
  };
}

/** Returns why the keychain cannot be used, or undefined if it can. Writes, reads and removes an item. */
export async function keychainProblem(service: string): Promise<ValiseError | undefined> {
  try {
    const { AsyncEntry } = await load();
    await typed(async () => {
      const item = new AsyncEntry(service, 'probe', { linux: { store: 'secret-service' } });
      await item.setSecret(Buffer.from('probe'));
      const found = await textIn(item);
      await item.deleteCredential();
      if (found !== 'probe') throw new Error('what was written could not be read');
    });
    return undefined;
  } catch (error) {
    if (error instanceof ValiseError) return error;
    throw error;
  }
}

async function textIn(item: Item): Promise<string | undefined> {
  const bytes = await item.getSecret();
  return bytes ? Buffer.from(bytes).toString('utf8') : undefined;
}

/** Runs an operation and converts its errors, because a keychain can be locked or terminated at any time. */
async function typed<Result>(work: () => Promise<Result>, how: InLineOptions = {}): Promise<Result> {
  try {
    return await inLine(() => surviving(work), how);
  } catch (cause) {
    if (cause instanceof ValiseError) throw cause;
    throw unavailableError(messageOf(cause).replace(/\.$/, ''), cause);
  }
}

/**
 * Runs an operation, and retries it once if gnome-keyring crashed, which happens for about one in ten thousand programs
 * that open it. The message bus restarts it for the next request, and every operation here is safe to repeat.
 */
async function surviving<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!/disconnected from message bus without replying/i.test(messageOf(error))) throw error;
    return await work();
  }
}

async function load(): Promise<Library> {
  try {
    // Native code cannot be bundled, so it is loaded from where it is installed.
    return (await import(
      /* webpackIgnore: true */ /* turbopackIgnore: true */ '@napi-rs/keyring'
    )) as unknown as Library;
  } catch (cause) {
    const remedy = 'Run `npm install @napi-rs/keyring`';
    throw unavailableError('the package @napi-rs/keyring is not installed', cause, remedy);
  }
}

const REMEDY =
  process.platform === 'linux'
    ? 'Run in a session with a Secret Service (gnome-keyring, KWallet, KeePassXC)'
    : 'Unlock it and allow the access';

function unavailableError(why: string, cause: unknown, remedy = REMEDY): ValiseError {
  return new ValiseError('no-keychain', `The system's keychain cannot be used: ${why}.`, {
    next: `${remedy}, or give keys (the option keys). Nothing is ever kept as plain text.`,
    cause,
  });
}
