import { messageOf, ValiseError } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { type Collection, collection, type Found, type Members } from '../../store/kit/collection.ts';
import { withTimeout } from '../../store/kit/timeout.ts';
import { secondsUntil } from '../../store/kit/update.ts';
import type { Store } from '../../store/types.ts';
import type { Scope } from '../../wire/index.ts';
import type { ClientEventSource } from '../events.ts';
import type { Bag } from './bag.ts';
import { BAGS, readBag, type StoredBag, writeBag } from './stored.ts';

/** How long a call's result waits for a store that does not answer. */
const PATIENCE_MS = 5000;
/** How long a request with stale data waits for a store that does not answer. */
const READ_PATIENCE_MS = 1000;
/** How old a bag may be before its next use refreshes it from the store in the background. */
const AGING_MS = 30_000;
/** How old a bag may be before its next use waits for the store, because others may have cleared it. */
const STALE_MS = 60_000;
/** Smaller differences of `usedAt` are not worth a write. */
const USE_MS = 1000;

/**
 * Stores bags in a store that other processes share. Each entry holds one bag and is written by compare-and-set. The loser
 * of a race reapplies only its own changes to what the winner wrote, so no key is lost.
 */
export class Keeper {
  readonly #store: Store;
  readonly #records: Collection<Members>;
  readonly #prefix: string;
  readonly #events: ClientEventSource;
  readonly #grown: (bag: Bag) => void;
  /** The principal's entries that cannot be read, and their versions. */
  readonly #unreadable = new Map<string, string>();
  /** Runs one operation at a time for each key, including when an ended session and its successor share the key. */
  readonly #lanes = new Map<string, Promise<void>>();
  /** Bags that are being read before they are sent. */
  readonly #stale = new Map<Bag, Promise<void>>();
  /** Saves that have not started yet. They will include all changes made until then. */
  readonly #waiting = new Map<Bag, Promise<void>>();

  /** Calls `grown` before a write, if a bag holds items set here in addition to what others have stored. */
  constructor(store: Store, principal: string, events: ClientEventSource, grown: (bag: Bag) => void) {
    this.#store = store;
    this.#records = collection(store, '', BAGS);
    this.#prefix = `jar/${nameOf(principal)}/`;
    this.#events = events;
    this.#grown = grown;
  }

  /** Loads everything that is stored for the principal. */
  async load(put: (stored: StoredBag, version: string) => void): Promise<void> {
    this.#unreadable.clear();
    const newer = ({ what, next = '' }: ValiseError): void =>
      this.#events.emit('warning', { code: 'store-newer', what, next });
    for await (const page of this.#records.pages(this.#prefix, newer)) {
      for (const [key, { value, version }] of page) {
        const stored = readBag(value);
        if (stored) put(stored, version);
        else if (value === undefined) this.#unreadable.set(key, version);
      }
    }
  }

  /**
   * Deletes the entries that {@link load} could not read: all of them, or those of one server or scope. Returns how many
   * were deleted.
   */
  async dropUnreadable(server: string | undefined, scope: Scope | undefined): Promise<number> {
    const own = server === undefined ? '' : this.#key({ server, account: '', session: undefined });
    const meant = [...this.#unreadable].filter(([key]) => {
      const its = key.includes('/', this.#prefix.length) ? 'session' : 'server';
      return (own === '' || key.split(/[./]/, 3).join('/') === own) && (scope === undefined || its === scope);
    });
    const gone = await Promise.all(
      meant.map(([key, version]) => this.#store.delete(key, { ifVersion: version })),
    );
    return gone.filter(Boolean).length;
  }

  /** Reads a bag again. */
  refresh(bag: Bag): Promise<void> {
    if (!bag.kept) return Promise.resolve();
    bag.syncedAt = Date.now();
    const key = this.#key(bag);
    return this.#enqueue(key, () => this.#read(bag, key));
  }

  /** Like {@link refresh}, but reports a failing store with a warning. The known items remain valid. */
  refreshOrWarn(bag: Bag): Promise<void> {
    return this.refresh(bag).catch((error: unknown) => this.#warn('read', bag, error));
  }

  /** Like {@link refreshOrWarn}, in the background, if the last read is long enough ago. Returns when to ask again. */
  refreshIfAging(bag: Bag, now: number): number {
    if (!bag.kept) return Number.POSITIVE_INFINITY;
    if (now - bag.syncedAt >= AGING_MS) void this.refreshOrWarn(bag);
    return bag.syncedAt + AGING_MS;
  }

  /** Returns a promise if a bag must be read before it is sent. All senders share it meanwhile. */
  refreshIfStale(bag: Bag, now: number): Promise<void> | undefined {
    if (!bag.kept) return undefined;
    if (now - bag.syncedAt < STALE_MS) return this.#stale.size === 0 ? undefined : this.#stale.get(bag);
    const isKnown = bag.syncedAt > 0;
    const reading = this.refresh(bag);
    const read = (isKnown ? inTime(reading, READ_PATIENCE_MS) : reading)
      .catch((error: unknown) => this.#warn('read', bag, error))
      .finally(() => this.#stale.delete(bag));
    this.#stale.set(bag, read);
    return read;
  }

  /** Stores the changes of a bag. Calls made while a save is waiting share it. */
  save(bag: Bag): Promise<void> {
    if (!bag.kept) return Promise.resolve();
    const waiting = this.#waiting.get(bag);
    if (waiting) return waiting;
    const key = this.#key(bag);
    const saved = this.#enqueue(key, () => {
      this.#waiting.delete(bag);
      return this.#write(bag, key);
    });
    this.#waiting.set(bag, saved);
    return saved;
  }

  /**
   * Like {@link save}, for bags that a result has changed. The result may be delivered when this resolves. It also resolves
   * if the store fails or is too slow, because the result matters more; `close()` retries.
   */
  async saveBehind(bags: Iterable<Bag>): Promise<void> {
    await Promise.all(
      Array.from(bags, (bag) =>
        inTime(this.save(bag), PATIENCE_MS).catch((error: unknown) => this.#warn('stored', bag, error)),
      ),
    );
  }

  /** Waits for operations in progress, then stores the remaining changes and when bags were last used. */
  async settle(bags: Iterable<Bag>): Promise<void> {
    await Promise.all(this.#lanes.values());
    const left = [...bags].filter(
      (bag) => bag.hasChanges || (bag.items.size > 0 && bag.usedAt - bag.storedUse >= USE_MS),
    );
    const results = await Promise.allSettled(left.map((bag) => this.save(bag)));
    const failed = results.find((result) => result.status === 'rejected');
    if (failed) {
      throw new ValiseError('jar-not-saved', 'State that servers set could not be stored.', {
        next: 'Check that the store can be reached and written.',
        cause: failed.reason,
      });
    }
  }

  #enqueue(key: string, work: () => Promise<void>): Promise<void> {
    const done = (this.#lanes.get(key) ?? Promise.resolve()).then(work);
    const last = done
      .catch(() => {})
      .then(() => {
        if (this.#lanes.get(key) === last) this.#lanes.delete(key);
      });
    this.#lanes.set(key, last);
    return done;
  }

  async #read(bag: Bag, key: string): Promise<void> {
    const found = await this.#records.get(key);
    if (found?.version === bag.version) bag.foundNothing();
    else this.#rebase(bag, found);
  }

  /** Reapplies local changes to what others have stored. */
  #rebase(bag: Bag, found: Found<Members> | undefined): void {
    const read = readBag(found?.value);
    const stored = read && isOf(read, bag) ? read : undefined;
    if (bag.rebase(stored?.items ?? new Map(), found?.version, stored?.usedAt ?? 0)) this.#grown(bag);
  }

  async #write(bag: Bag, key: string): Promise<void> {
    if (bag.removesUnseen) {
      await this.#read(bag, key);
      if (!bag.hasChanges) return;
    }
    const { version } = bag;
    let taken: ReturnType<Bag['takeChanges']> | undefined;
    let { usedAt } = bag;
    try {
      const next = await this.#records.update(
        key,
        (found) => {
          if (taken) bag.putBack(taken);
          if (found?.version !== bag.version) this.#rebase(bag, found);
          taken = bag.takeChanges();
          ({ usedAt } = bag);
          return bag.items.size === 0 ? null : writeBag(bag);
        },
        {
          ttl: () => secondsUntil(endOf(bag)),
          seen: { found: version === undefined ? undefined : { value: undefined, version } },
        },
      );
      bag.version = next ?? undefined;
      bag.storedUse = usedAt;
    } catch (error) {
      if (taken) bag.putBack(taken);
      throw error;
    }
  }

  #key({ server, account, session }: BagName): string {
    // Keys are digests, because names may be long and readers of the store's keys need not learn whose they are.
    const own = account === '' ? nameOf(server) : `${nameOf(server)}.${nameOf(account)}`;
    return `${this.#prefix}${own}${session === undefined ? '' : `/${nameOf(session)}`}`;
  }

  #warn(what: 'read' | 'stored', bag: Bag, error: unknown): void {
    const reason = messageOf(error);
    this.#events.emit('warning', {
      code: 'jar-not-kept',
      what: `The state of ${bag.server} could not be ${what}: ${reason}`,
      next: 'Check the store. What is known is kept in memory, and stored with the next change or by close().',
    });
  }
}

/** Returns when the last of its items expires. */
function endOf({ items }: Bag): number {
  let last = 0;
  for (const { expiresAt } of items.values()) last = Math.max(last, expiresAt);
  return last;
}

type BagName = Pick<Bag, 'server' | 'account' | 'session'>;

function isOf(stored: BagName, { server, account, session }: BagName): boolean {
  return stored.server === server && stored.account === account && stored.session === session;
}

/** Settles like `work`, or rejects if the store does not answer in time. The work itself continues. */
function inTime(work: Promise<void>, ms: number): Promise<void> {
  return withTimeout(work, ms, () => {
    throw new Error(`the store has not answered within ${ms / 1000} s.`);
  });
}

function nameOf(text: string): string {
  return sha256(text).slice(0, 24);
}
