import { dirname } from 'node:path';
import { messageOf, ValiseError } from '../../core/errors.ts';
import { type FileLock, fileLock } from '../../store/file/lock.ts';
import { withTimeout } from '../../store/kit/clock.ts';
import { fullPath, privateFile, statOf } from '../../store/private-file.ts';

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
    next: `${remedy}, or set the option keys. Secrets are never stored as plain text.`,
    cause,
  });
}

const LOCK = '~/.valise/keychain.lock';

/** How long a response may take: the user may have to type a password. */
const ANSWER_SECONDS = 60;
/** How long to wait for other processes. */
const TURN_SECONDS = 90;

/** Options for an operation on the keychain. */
export interface InLineOptions {
  /** The maximum duration in seconds. */
  readonly patience?: number;
  /**
   * Whether the operation is read-only. It then does not create a folder for the lock, since there may not even be a
   * keychain.
   */
  readonly looks?: boolean;
  /** Whether the operation must not run in two processes at once, on any system: keychains have no compare-and-set. */
  readonly exclusive?: boolean;
}

let turn: Promise<unknown> = Promise.resolve();
let hangs = false;
let lock: FileLock | undefined;

/**
 * Runs one keychain operation at a time. On Linux this also applies across processes: gnome-keyring fails an operation on
 * an item that another program creates or removes at the same moment. An operation that hangs occupies one of the few
 * threads that Node also uses for files, DNS and ciphers, so no other starts next to it.
 */
export function inLine<Result>(
  work: () => Promise<Result>,
  { patience = ANSWER_SECONDS, looks = false, exclusive = false }: InLineOptions = {},
): Promise<Result> {
  const done = turn.then(() => alone(() => inTime(work, patience), looks, exclusive));
  turn = done.catch(() => {});
  return done;
}

async function alone<Result>(
  work: () => Promise<Result>,
  looks: boolean,
  exclusive: boolean,
): Promise<Result> {
  if (hangs) throw new Error('it has not answered what it was asked before');
  const held = (exclusive || process.platform === 'linux') && (await takeLock(looks));
  try {
    return await work();
  } finally {
    if (held) lock?.release();
  }
}

/**
 * Acquires the lock. If the folder of the lock is not writable, the operation runs without the lock.
 */
async function takeLock(looks: boolean): Promise<boolean> {
  try {
    // If nobody has ever changed anything, there is nobody to wait for.
    if (!lock && looks && !statOf(dirname(fullPath(LOCK)))) return false;
    lock ??= fileLock(privateFile(LOCK), { patience: TURN_SECONDS });
    await lock.acquire();
    return true;
  } catch (error) {
    if (error instanceof ValiseError && error.code === 'store-busy') throw error;
    return false;
  }
}

function inTime<Result>(work: () => Promise<Result>, seconds: number): Promise<Result> {
  hangs = true;
  const answer = (async () => work())().finally(() => {
    hangs = false;
  });
  return withTimeout(answer, seconds * 1000, () => {
    throw new Error(`it gave no answer within ${seconds} s`);
  });
}
