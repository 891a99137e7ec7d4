import { messageOf, ValiseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { collection, type Found, type Members, recordsOf } from '../../store/kit/collection.ts';
import { isContended, TRIES } from '../../store/kit/update.ts';
import type { Store } from '../../store/types.ts';
import { MAX_AGE, methodPath, type Scope, scopeCovers } from '../../wire/index.ts';
import { noCarrier } from '../carriers/state-carrier.ts';
import type { Carrier } from '../carriers/types.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange, ServerLink } from '../exchange.ts';
import { partlyDone } from '../fault.ts';
import type { Key, Keys } from './keys.ts';
import type { JarLimits } from './limits.ts';
import { type Changes, copyOf, type Source } from './scope.ts';

/** One value in the store: name, value, and when it ends (milliseconds since 1970), or null. */
type Entry = readonly [name: string, value: Json, until: number | null];

/** All entries of one owner in one scope, as read from the store. */
interface JarRecord {
  readonly key: string;
  readonly entries: ReadonlyMap<string, Entry>;
  readonly found: Found<Members> | undefined;
  /** The end that no use postpones, in milliseconds since 1970. */
  readonly until: number | undefined;
}

/** The records of one request, or the error that prevented loading them. */
export type LoadedJar =
  | { readonly store: Store; readonly records: { readonly [S in Scope]: JarRecord } }
  | { readonly error: unknown };

/** Options of a {@link StoredJar}. */
export interface StoredJarOptions {
  readonly keys: Keys;
  /** How long session state stays after its last use, in seconds. */
  readonly sessionTtl: number;
  readonly limits: JarLimits;
}

const SCOPES: readonly Scope[] = ['session', 'server'];

/**
 * How long the state of anonymous clients that only a handle or a key tells apart stays: idle, and at most, in seconds.
 *
 * Its end is postponed when half of the time is over, so that it stays for at least a day after its last use.
 */
const BEARER_IDLE = 2 * 86_400;
const BEARER_MAX = 30 * 86_400;

/** The maximum size of one record. Clients that carry no state could otherwise fill the store. */
const MAX_RECORD = 1024 * 1024;

const SCHEMA = recordsOf('state record');

const recordsIn = (store: Store) => collection(store, '', SCHEMA, { unlisted: true });

/** The jar of clients that carry none: one record for each owner and scope, in the server's store. */
export class StoredJar {
  readonly #context: ServerContext;
  readonly #options: StoredJarOptions;
  /** The records that end with a connection, by key, with the functions that release their places. */
  readonly #connections = new WeakMap<ServerLink, Map<string, () => void>>();

  constructor(context: ServerContext, options: StoredJarOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** Returns the store that has the jar of a request, or undefined if there is no store, no owner, or no handler. */
  storeFor({ carrier, isHandled }: Exchange): Store | undefined {
    return isHandled && carrier.kind !== 'none' ? carrier.store : undefined;
  }

  /** Loads the jar of a request. Never throws, since an error matters only to handlers that use the jar. */
  async load({ carrier }: Exchange, store: Store): Promise<LoadedJar> {
    const load = async (scope: Scope): Promise<JarRecord> => {
      const key = storeKey(this.#context.name, scope, carrier);
      return recordOf(key, carrier.isNew ? undefined : await recordsIn(store).get(key));
    };
    try {
      const [session, server] = await Promise.all([load('session'), load('server')]);
      return { store, records: { session, server } };
    } catch (error) {
      return { error };
    }
  }

  /** Returns what was loaded for a scope. Throws the error of loading. */
  source(exchange: Exchange, scope: Scope, loaded: LoadedJar | undefined): Source {
    if (!loaded) return unavailable(exchange, this.#context.store !== undefined);
    if (!('error' in loaded)) return sourceOf(loaded.records[scope], exchange);
    exchange.note(loaded.error);
    throw loaded.error;
  }

  /** Writes changes back, and postpones the end of records in use. */
  async save(
    exchange: Exchange,
    loaded: LoadedJar,
    changes: { readonly [S in Scope]: Changes },
  ): Promise<void> {
    if ('error' in loaded) return;
    const { store, records } = loaded;
    const saving = await Promise.allSettled(
      SCOPES.map((scope) => this.#saveScope(exchange, scope, store, records[scope], changes[scope])),
    );
    const failed = saving.find((each) => each.status === 'rejected');
    const isPartlySaved = saving.some((each) => each.status === 'fulfilled' && each.value);
    if (failed) throw isPartlySaved ? partlyDone(failed.reason) : failed.reason;
  }

  /** Saves one scope. Returns whether changes were written. */
  async #saveScope(
    exchange: Exchange,
    scope: Scope,
    store: Store,
    record: JarRecord,
    changes: Changes,
  ): Promise<boolean> {
    const ttl = this.#ttlOf(exchange.carrier, scope);
    const isChanged = changes.size > 0;
    const mayExpire = scope === 'session' || exchange.carrier.principal === null;
    if (!isChanged && !(mayExpire && isHalfOver(record, ttl))) return false;
    try {
      if (isChanged) await this.#reserve(exchange, scope, record, store);
      await this.#write(exchange, scope, store, record, changes, ttl);
    } catch (error) {
      if (error instanceof ValiseError && error.code === 'limit-reached')
        this.#context.events.emit('rejected', { family: 'jar', what: error.code, reason: error.what });
      if (isChanged) throw error;
      this.#context.warnOnce('state-not-put-off', {
        what: `The expiry of state could not be extended: ${messageOf(error)}`,
        next: 'Check the store. Calls that change nothing are served, and try again.',
      });
    }
    return isChanged;
  }

  /** Takes a place for a record that is written for the first time. A principal's own record of server scope needs none. */
  async #reserve(exchange: Exchange, scope: Scope, { key, found }: JarRecord, store: Store): Promise<void> {
    const { link, carrier } = exchange;
    const { limits } = this.#options;
    await carrier.begin?.();
    if (scope === 'server' && carrier.principal !== null) return;
    // State that ends with a connection of this process is counted here.
    if (carrier.thread?.startsWith('link:')) {
      const records = this.#recordsOf(link, store);
      if (!records.has(key)) records.set(key, limits.addToConnection(exchange));
    } else if (!found) await limits.add(exchange, key, store);
    if (scope === 'server') this.#warnOfNoPrincipal();
  }

  /**
   * Writes a record.
   *
   * If another request has written in between, the changes are applied to what it wrote. Names do not affect each other, and of
   * two values for one name the later one stays, as in a client's jar.
   */
  async #write(
    exchange: Exchange,
    scope: Scope,
    store: Store,
    loaded: JarRecord,
    changes: Changes,
    ttl: number,
  ): Promise<void> {
    const { keys, limits } = this.#options;
    const { key, found } = loaded;
    // The state of anonymous callers is limited in bytes too, and so is all that is in memory.
    const isCounted = exchange.caller.isAnonymous || store !== this.#context.store;
    let undo: (() => void) | undefined;
    try {
      const version = await recordsIn(store).update(
        key,
        (now) => {
          const current = now === found ? loaded : recordOf(key, now);
          const entries = changed(current, changes, scope, keys);
          undo?.();
          undo = undefined;
          if (entries.length === 0) return null;
          const bytes = checkedSize({ entries });
          if (isCounted) undo = limits.countBytes(exchange, key, bytes, ttl);
          if (!isBearer(exchange.carrier)) return { entries };
          return { entries, until: current.until ?? Date.now() + BEARER_MAX * 1000 };
        },
        { ttl, seen: { found } },
      );
      if (version === null && isCounted) limits.releaseBytes(key);
    } catch (error) {
      undo?.();
      throw isContended(error) ? notSaved(error) : error;
    }
  }

  /** Returns how long a record stays. Without a principal, server scope ends with the session, and is stored no longer. */
  #ttlOf(carrier: Carrier, scope: Scope): number {
    const { sessionTtl } = this.#options;
    if (carrier.principal !== null) return scope === 'server' ? MAX_AGE : sessionTtl;
    return isBearer(carrier) ? Math.min(sessionTtl, BEARER_IDLE) : sessionTtl;
  }

  /** Returns the records that end with a connection. */
  #recordsOf(link: ServerLink, store: Store): Map<string, () => void> {
    const known = this.#connections.get(link);
    if (known) return known;
    const records = new Map<string, () => void>();
    this.#connections.set(link, records);
    link.closed.addEventListener('abort', () => {
      for (const [key, release] of records) {
        release();
        this.#options.limits.releaseBytes(key);
        // A record that cannot be deleted now expires by itself.
        store.delete(key).catch(() => undefined);
      }
    });
    return records;
  }

  #warnOfNoPrincipal(): void {
    this.#context.warnOnce('server-state-without-principal', {
      what: 'Server-scope state of a client that carries none ends with its session, since the principal is unknown.',
      next: 'Verify the principal (authInfo), or give createValise the option principal.',
    });
  }
}

function recordOf(key: string, found: Found<Members> | undefined): JarRecord {
  const entries = new Map<string, Entry>();
  const now = Date.now();
  const { entries: stored, until: end } = found?.value ?? {};
  const until = typeof end === 'number' && end > now ? end : undefined;
  if (Array.isArray(stored) && (end === undefined || until !== undefined)) {
    for (const entry of stored as readonly Entry[]) {
      if (entry[2] === null || entry[2] > now) entries.set(entry[0], entry);
    }
  }
  return { key, entries, found, until };
}

/**
 * Returns a record as a source. A key's method scope applies here too, so that a handler sees the same with every client.
 */
function sourceOf({ entries }: JarRecord, { request }: Exchange): Source {
  const path = methodPath(request.method, request.params);
  return {
    names: () => entries.keys(),
    checkWritable: () => undefined,
    read(name, { attributes: { methodScope } }: Key) {
      const entry = entries.get(name);
      // Hidden values are still written back when another one has changed.
      return entry && (methodScope === undefined || scopeCovers(methodScope, path))
        ? copyOf(entry[1])
        : undefined;
    },
  };
}

/** Returns a source without storage: reading finds nothing, and setting throws an error that says what to configure. */
function unavailable(exchange: Exchange, hasStore: boolean): Source {
  return {
    names: () => [],
    read: () => undefined,
    checkWritable() {
      throw noCarrier(exchange, hasStore);
    },
  };
}

function changed({ entries }: JarRecord, changes: Changes, scope: Scope, keys: Keys): readonly Entry[] {
  const next = new Map(entries);
  for (const [name, change] of changes) {
    if (change) next.set(name, [name, change.json, untilOf(keys.of(scope, name), scope)]);
    else next.delete(name);
  }
  return [...next.values()];
}

/** Returns when a value ends. Server scope ends after 400 days, as in a client; session scope ends with its session. */
function untilOf({ attributes: { maxAge } }: Key, scope: Scope): number | null {
  const age = maxAge ?? (scope === 'server' ? MAX_AGE : undefined);
  return age === undefined ? null : Date.now() + age * 1000;
}

/**
 * Returns the store key for the state of a client that carries none.
 *
 * Session scope belongs to the thread, and only for the principal that it was set for; without a thread, to the principal.
 * Server scope belongs to the principal; without one, it ends with the thread.
 */
function storeKey(name: string, scope: Scope, { principal, thread }: Carrier): string {
  const isOfPrincipal = scope === 'server' && principal !== null;
  return `state/${scope}/${sha256(JSON.stringify([name, isOfPrincipal ? null : thread, principal]))}`;
}

/** Whether a text that the caller chose or the model passes on is all that tells this client from others. */
function isBearer({ kind }: Carrier): boolean {
  return kind === 'handle' || kind === 'conversation';
}

/** Whether a record has passed half of its life. It is then written again, since state in use must not expire. */
function isHalfOver({ found }: JarRecord, ttl: number): boolean {
  const { expiresAt } = found ?? {};
  return expiresAt !== undefined && expiresAt - Date.now() < (ttl * 1000) / 2;
}

/** Returns the size of a record in bytes. Throws if it is too large. */
function checkedSize(record: Members): number {
  const bytes = Buffer.byteLength(JSON.stringify(record));
  if (bytes <= MAX_RECORD) return bytes;
  throw new ValiseError(
    'too-large',
    `All state of one client together would take over ${MAX_RECORD} bytes.`,
    {
      next: 'Delete what is no longer needed, or keep it in a database of your own.',
    },
  );
}

function notSaved(cause: ValiseError): ValiseError {
  return new ValiseError(
    'not-saved',
    `State could not be saved: others wrote it ${TRIES} times in between.`,
    {
      next: 'Try again. Run fewer requests of one session at the same time.',
      outcome: 'not-done',
      cause,
    },
  );
}
