import { randomBytes } from 'node:crypto';
import { messageOf, ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { parseValue } from '../entry-text.ts';
import { type InLineOptions, inLine } from './queue.ts';

/** One secret in the system keychain. */
interface Item {
  getSecret(): Promise<readonly number[] | Uint8Array | null | undefined>;
  setSecret(secret: Uint8Array): Promise<void>;
  deleteCredential(): Promise<boolean>;
}

interface Library {
  AsyncEntry: new (service: string, account: string, options: object) => Item;
}

/** Named texts of any length in the keychain. */
export interface Vault {
  read(name: string): Promise<string | undefined>;
  write(name: string, text: string): Promise<void>;
  remove(name: string): Promise<void>;
}

/** Windows accepts at most 2,560 bytes. The others accept far more, but are not designed for it. */
const PART_BYTES = process.platform === 'win32' ? 2400 : 65_536;

// The first byte says whether the text follows, or the list of the items that contain it.
const WHOLE = 'T';
const PARTS = 'P';

interface Parts {
  readonly id: string;
  readonly count: number;
}

/**
 * Opens the keychain and tests it by writing, reading and removing an item. Only persistent storage qualifies, so on
 * Linux it uses the Secret Service and never the kernel keyring, which a restart clears.
 */
export async function openVault(service: string, partBytes = PART_BYTES): Promise<Vault> {
  const { AsyncEntry } = await load();
  const item = (name: string) => new AsyncEntry(service, name, { linux: { store: 'secret-service' } });
  const vault = vaultOf(
    {
      get: (name) => typed(() => item(name).getSecret(), { looks: true }),
      set: (name, secret) => typed(() => item(name).setSecret(secret)),
      delete: (name) => typed(() => item(name).deleteCredential()),
    },
    partBytes,
  );
  const probe = `probe:${randomBytes(6).toString('hex')}`;
  const attempt = async () => {
    await vault.write(probe, probe);
    const found = await vault.read(probe);
    await vault.remove(probe);
    if (found !== probe) throw new Error('what was written could not be read');
  };
  try {
    await attempt();
  } catch (cause) {
    throw cause instanceof ValiseError ? cause : unavailableError(reasonOf(cause), cause);
  }
  return vault;
}

/** Access to the items of the keychain. */
interface Items {
  get(name: string): ReturnType<Item['getSecret']>;
  set(name: string, secret: Uint8Array): Promise<void>;
  delete(name: string): Promise<boolean>;
}

/** Runs an operation and converts its errors, because a keychain can be locked or terminated at any time. */
async function typed<Result>(work: () => Promise<Result>, how: InLineOptions = {}): Promise<Result> {
  try {
    return await inLine(() => surviving(work), how);
  } catch (cause) {
    if (cause instanceof ValiseError) throw cause;
    throw unavailableError(reasonOf(cause), cause);
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

function vaultOf(items: Items, partBytes: number): Vault {
  const partName = (id: string, index: number) => `part:${id}/${index}`;

  const head = async (name: string): Promise<Buffer | undefined> => {
    const bytes = await items.get(name);
    return bytes ? Buffer.from(bytes) : undefined;
  };
  const partsOf = (bytes: Buffer | undefined): Parts | undefined => {
    if (bytes?.toString('latin1', 0, 1) !== PARTS) return undefined;
    const [, id, count] = /^P\{"id":"([\w-]{1,50})","count":(\d{1,5})\}$/.exec(bytes.toString('utf8')) ?? [];
    // An unreadable list of parts counts as invalid text.
    return id === undefined ? undefined : { id, count: Number(count) };
  };
  const removeParts = async (parts: Parts | undefined) => {
    for (let index = 0; index < (parts?.count ?? 0); index++) {
      await items.delete(partName((parts as Parts).id, index));
    }
  };

  return {
    async read(name) {
      for (let tries = 0; tries < 10; tries++) {
        const bytes = await head(name);
        const parts = partsOf(bytes);
        if (!parts) return bytes?.toString('utf8', 1);
        const found = await Promise.all(
          Array.from({ length: parts.count }, (_, index) => head(partName(parts.id, index))),
        );
        // A missing part means that the text has been replaced. Reading the name again shows the new text.
        if (found.every((part) => part !== undefined)) return Buffer.concat(found).toString('utf8');
      }
      throw new ValiseError('store-busy', `The entry ${name} of the keychain keeps changing.`, {
        next: 'Try again.',
      });
    },
    async write(name, text) {
      const before = partsOf(await head(name));
      const bytes = Buffer.from(text);
      if (bytes.length < partBytes) {
        await items.set(name, Buffer.concat([Buffer.from(WHOLE), bytes]));
      } else {
        const parts: Parts = {
          id: randomBytes(9).toString('base64url'),
          count: Math.ceil(bytes.length / partBytes),
        };
        for (let index = 0; index < parts.count; index++) {
          const part = bytes.subarray(index * partBytes, (index + 1) * partBytes);
          await items.set(partName(parts.id, index), part);
        }
        // The list is written last, so that a crash leaves the old text and not half of the new one.
        await items.set(name, Buffer.from(PARTS + JSON.stringify(parts)));
      }
      await removeParts(before);
    },
    async remove(name) {
      const before = partsOf(await head(name));
      await items.delete(name);
      await removeParts(before);
    },
  };
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
    next: `${remedy}, or give keys (the option keys) for a sealed file instead. Nothing is ever kept as plain text.`,
    cause,
  });
}

function reasonOf(error: unknown): string {
  return messageOf(error).replace(/\.$/, '');
}

const INDEX = 'index';

/** The keys of the entries in a keychain, each with its expiry (null if none), because not every keychain can be searched. */
export interface KeychainIndex {
  set(key: string, expires: number | null): Promise<void>;
  remove(key: string): Promise<void>;
  /** Returns the unexpired keys in order. */
  living(now: number): Promise<string[]>;
}

export function keychainIndex(vault: Vault): KeychainIndex {
  const read = async (): Promise<Map<string, number | null>> => {
    const text = await vault.read(INDEX);
    const json: unknown = text === undefined ? {} : parseValue(INDEX, text);
    return new Map(Object.entries(isObject(json) ? (json as Record<string, number | null>) : {}));
  };
  const change = async (work: (keys: Map<string, number | null>) => boolean) => {
    const keys = await read();
    if (!work(keys)) return;
    // Expired secrets are removed here, because they may never be requested again.
    for (const [key, expires] of keys) {
      if (expires === null || expires > Date.now()) continue;
      await vault.remove(`key:${key}`);
      keys.delete(key);
    }
    await vault.write(INDEX, textOf(keys));
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

/** Serializes by hand, because a key may be `__proto__`, which cannot be assigned to an object the usual way. */
function textOf(keys: ReadonlyMap<string, number | null>): string {
  return `{${[...keys].map(([key, expires]) => `${JSON.stringify(key)}:${expires}`).join(',')}}`;
}
