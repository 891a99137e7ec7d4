import type { Json } from '../../core/json.ts';
import type { Keyring } from '../../seal/index.ts';
import { checkKey, closedError, nextVersion, toMilliseconds, toText } from '../driver.ts';
import { pageOf } from '../page.ts';
import { SEAL_MARK, sealedError, untilSealed } from '../plain.ts';
import { privateFile, removeFile, replaceFile } from '../private-file.ts';
import { sealedStore, toKeyring } from '../sealed.ts';
import type { Entry, KeyPage, Lease, ListOptions, PutOptions, Store } from '../types.ts';
import { type Document, dropExpired, FileView, printDocument, slotOf } from './document.ts';
import { type FileLock, fileLock } from './lock.ts';

/** A change to the document. Returns true if it changed something. */
type Change = (document: Document, now: number) => boolean;

interface Waiting {
  readonly change: Change;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

/** Options of a store on the local disk. */
export interface LocalStoreOptions {
  /** Seals the values with this keyring (or its text); see `sealedStore`. */
  readonly keys?: Keyring | string | undefined;
}

/**
 * Creates a store in one JSON file that only its owner can read. Every write replaces the file atomically, and several
 * processes can share it. It suits the state of a client, some hundred entries; SQLite is faster beyond that.
 *
 * Concurrent writes are combined into one. Written data survives the end of the process. A power failure can undo the
 * last writes, but never leaves half a file.
 *
 * @example
 * ```ts
 * const store = fileStore('./mcp-state.json');
 * ```
 */
export function fileStore(path: string, { keys }: LocalStoreOptions = {}): Store {
  const ring = toKeyring(keys);
  const store = new FileStore(path);
  if (ring) return sealedStore(store, ring);
  if (store.has(SEAL_MARK)) {
    void store.close();
    throw sealedError(path);
  }
  return untilSealed(store, path);
}

/** Opens the file without unsealing it, sealed or not. */
export function plainFileStore(path: string): Store {
  return new FileStore(path);
}

class FileStore implements Store {
  readonly #path: string;
  readonly #view: FileView;
  readonly #lock: FileLock;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #closed = false;

  constructor(path: string) {
    this.#path = privateFile(path);
    this.#lock = fileLock(`${this.#path}.lock`, {
      abandoned: (nonce) => removeFile(this.#temporary(nonce)),
    });
    this.#view = new FileView(this.#path, this.#lock);
    this.#view.read();
  }

  has(key: string): boolean {
    return this.#view.read().entries.has(key);
  }

  async get(key: string): Promise<Entry | undefined> {
    this.#check(key);
    const slot = this.#view.read().entries.get(key);
    if (slot === undefined || slot.expiresAt <= Date.now()) return undefined;
    const { text, version, expiresAt } = slot;
    const value = JSON.parse(text) as Json;
    return expiresAt === Number.POSITIVE_INFINITY ? { value, version } : { value, version, expiresAt };
  }

  async put(
    key: string,
    value: Json,
    { ttl, ifVersion, ifAbsent }: PutOptions = {},
  ): Promise<string | undefined> {
    this.#check(key);
    const text = toText(key, value);
    const length = ttl === undefined ? Number.POSITIVE_INFINITY : toMilliseconds(ttl);
    let version: string | undefined;
    await this.#change(({ entries }, now) => {
      version = undefined;
      if (ifVersion !== undefined || ifAbsent) {
        const slot = entries.get(key);
        const living = slot !== undefined && slot.expiresAt > now ? slot : undefined;
        if (ifAbsent && living) return false;
        if (ifVersion !== undefined && living?.version !== ifVersion) return false;
      }
      version = nextVersion();
      entries.set(key, slotOf(key, text, version, now + length));
      return true;
    });
    return version;
  }

  async delete(key: string, { ifVersion }: { readonly ifVersion?: string } = {}): Promise<boolean> {
    this.#check(key);
    let deleted = false;
    await this.#change(({ entries }, now) => {
      const slot = entries.get(key);
      deleted =
        slot !== undefined && slot.expiresAt > now && (ifVersion === undefined || slot.version === ifVersion);
      return deleted && entries.delete(key);
    });
    return deleted;
  }

  async list(prefix: string, options: ListOptions = {}): Promise<KeyPage> {
    if (this.#closed) throw closedError();
    const now = Date.now();
    const { entries } = this.#view.read();
    return pageOf(
      this.#view.sortedKeys(),
      prefix,
      options,
      (key) => (entries.get(key)?.expiresAt ?? 0) > now,
    );
  }

  async lease(key: string, ttl: number): Promise<Lease | undefined> {
    this.#check(key);
    const length = toMilliseconds(ttl);
    let fence = 0;
    await this.#change((document, now) => {
      fence = 0;
      if ((document.leases.get(key)?.until ?? 0) > now) return false;
      fence = ++document.fence;
      document.leases.set(key, { fence, until: now + length });
      return true;
    });
    return fence === 0 ? undefined : this.#leaseOf(key, fence);
  }

  #leaseOf(key: string, fence: number): Lease {
    const change = async (until: (now: number) => number) => {
      let mine = false;
      await this.#change(({ leases }, now) => {
        const holder = leases.get(key);
        mine = holder?.fence === fence && holder.until > now;
        if (mine) leases.set(key, { fence, until: until(now) });
        return mine;
      });
      return mine;
    };
    return {
      fence,
      renew: async (ttl) => {
        if (this.#closed) throw closedError();
        const length = toMilliseconds(ttl);
        return change((now) => now + length);
      },
      release: async () => {
        if (!this.#closed) await change(() => 0);
      },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#writing;
    this.#view.close();
  }

  /**
   * Returns the name of the temporary file. It contains the nonce of the lock holder, so that the file of a dead holder
   * is found and removed with its lock.
   */
  #temporary(nonce: string): string {
    return `${this.#path}.${nonce}.tmp`;
  }

  #check(key: string): void {
    if (this.#closed) throw closedError();
    checkKey(key);
  }

  /** Changes the document together with all other pending changes, so that the file is written once for all of them. */
  #change(change: Change): Promise<void> {
    return new Promise((done, failed) => {
      this.#waiting.push({ change, done, failed });
      this.#writing ??= new Promise((resolve) => {
        setImmediate(() => resolve(this.#write()));
      });
    });
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      let trouble: { readonly error: unknown } | undefined;
      try {
        await this.#lock.acquire();
      } catch (error) {
        trouble = { error };
      }
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        if (trouble === undefined) this.#apply(batch);
      } catch (error) {
        // Unwritten changes are discarded, so that the next call reads the file.
        this.#view.forget();
        trouble = { error };
      }
      for (const { done, failed } of batch) trouble ? failed(trouble.error) : done();
    }
    this.#writing = undefined;
  }

  /** Applies a batch with the lock held and without awaiting, so that it is held only briefly. */
  #apply(batch: readonly Waiting[]): void {
    try {
      for (;;) {
        const document = this.#view.read();
        const now = Date.now();
        let changed = false;
        for (const { change } of batch) changed = change(document, now) || changed;
        if (!changed) return;
        dropExpired(document, now);
        const written = replaceFile(this.#path, this.#temporary(this.#lock.nonce), printDocument(document), {
          owner: this.#view.owner,
          ready: () => this.#lock.held(),
        });
        if (written) {
          this.#view.wrote(written);
          return;
        }
        // Another process considered this lock abandoned, so the document may be outdated.
        this.#view.forget();
        this.#lock.acquireSync();
      }
    } finally {
      this.#lock.release();
    }
  }
}
