import { messageOf, ValiseError } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import type { Store } from '../../store/types.ts';
import { MAX_AGE, type Scope } from '../../wire/index.ts';
import { noCarrier } from '../carriers/carrier.ts';
import type { Carrier } from '../carriers/types.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange, ServerLink } from '../exchange.ts';
import { partlyDone } from '../fault.ts';
import { Quota } from '../quota.ts';
import { Slot } from '../slot.ts';
import type { Keys } from './key.ts';
import { LocalPlaces, type PlacesSettings, StatePlaces, tooMuch } from './places.ts';
import type { Changes, Source } from './source.ts';
import { emptyShelf, loadShelf, type Shelf, type ShelfCount, saveShelf, storedSource } from './stored.ts';

type Shelves = { readonly [S in Scope]: Shelf | undefined };

/** The result of loading: the state, or the error. */
type Loaded = { readonly shelves: Shelves; readonly store: Store } | { readonly failed: unknown };

/** Stores the state of clients that carry none, in the server's store. */
export interface Keeper {
  /** Loads what the store has for a request. Returns undefined if there is no store, no owner, or no handler. */
  load(exchange: Exchange): Promise<undefined> | undefined;
  /** Returns what was loaded for a scope. Throws what loading threw, so that it affects only handlers that ask for state. */
  source(exchange: Exchange, scope: Scope): Source;
  /** Writes changes back. */
  save(exchange: Exchange, changes: { readonly [S in Scope]: Changes }): Promise<void>;
}

export interface KeeperOptions {
  readonly keys: Keys;
  /** How long session state stays after its last use, in seconds. */
  readonly sessionTtl: number;
  readonly limits: PlacesSettings;
}

const SCOPES: readonly Scope[] = ['session', 'server'];

/**
 * How long the state of anonymous clients that only a handle or a key tells apart stays: idle, and at most, in seconds.
 *
 * Its end is postponed when half of the time is over, so that it stays for at least a day after its last use.
 */
const IDLE = 2 * 86_400;
const LONGEST = 30 * 86_400;

const loads = new Slot<Loaded>();

export function createKeeper(
  { store: shared, name, events, warnOnce }: ServerContext,
  { keys, sessionTtl, limits }: KeeperOptions,
): Keeper {
  const places = new Map<Store, StatePlaces>();
  const placesIn = (store: Store): StatePlaces => {
    const known = places.get(store) ?? new StatePlaces(store, name, sessionTtl, limits);
    places.set(store, known);
    return known;
  };
  const local = new LocalPlaces(limits);
  const held = new Quota({
    perCaller: { bytes: limits.maxAnonymousBytes / 10 },
    total: { bytes: limits.maxAnonymousBytes },
  });
  // Without a principal, server scope ends with the session, and is stored no longer than that.
  const ttlOf = ({ carrier }: Exchange, scope: Scope): number => {
    if (carrier.principal !== null) return scope === 'server' ? MAX_AGE : sessionTtl;
    return isBearer(carrier) ? Math.min(sessionTtl, IDLE) : sessionTtl;
  };

  /** Takes a place for state that is written for the first time. A principal's own entry of server scope needs none. */
  const place = async (exchange: Exchange, scope: Scope, shelf: Shelf, store: Store): Promise<void> => {
    const { link, carrier } = exchange;
    const { key, found } = shelf;
    await carrier.begin?.();
    const isLasting = scope === 'server' && carrier.principal !== null;
    // State that ends with a connection of this process is counted here.
    if (carrier.thread?.startsWith('link:')) {
      const noted = keptFor(link, store);
      if (!isLasting && !noted.has(key)) noted.set(key, local.take(exchange));
    } else if (!found && !isLasting) await placesIn(store).take(exchange, key);
  };
  /** Returns the byte count of anonymous callers, whose state is limited in bytes too, and of all that is in memory. */
  const countOf = (
    { caller }: Exchange,
    { key }: Shelf,
    ttl: number,
    store: Store,
  ): ShelfCount | undefined =>
    caller.isAnonymous || store !== shared
      ? {
          take(bytes) {
            const taken = held.take(caller, { key, bytes, ttl });
            if (typeof taken === 'function') return taken;
            const share = taken === 'caller-bytes' ? ', the share of one caller' : '';
            throw tooMuch(`state.maxAnonymousBytes${share}`);
          },
          release: () => held.release(key),
        }
      : undefined;
  const tell = (error: unknown): never => {
    if (error instanceof ValiseError && error.code === 'limit-reached')
      events.emit('rejected', { family: 'state', what: error.code, reason: error.what });
    throw error;
  };
  /** The entries of each connection, with the functions that release their places. */
  const ofLink = new WeakMap<ServerLink, Map<string, () => void>>();

  /** Returns what is stored for a connection. If the connection is the session, its state ends with it. */
  const keptFor = (link: ServerLink, store: Store): Map<string, () => void> => {
    const known = ofLink.get(link);
    if (known) return known;
    const kept = new Map<string, () => void>();
    ofLink.set(link, kept);
    link.closed.addEventListener('abort', () => {
      for (const [key, leave] of kept) {
        leave();
        held.release(key);
        // An entry that cannot be deleted now expires by itself.
        store.delete(key).catch(() => undefined);
      }
    });
    return kept;
  };

  const note = ({ carrier }: Exchange, scope: Scope): void => {
    if (scope === 'session' || carrier.principal !== null) return;
    warnOnce('server-state-without-principal', {
      what: 'Server-scope state of a client that carries none ends with its session, since nothing names who asks.',
      next: 'Verify who asks (authInfo), or give createValise the option principal.',
    });
  };

  const notPutOff = (error: unknown): void =>
    warnOnce('state-not-put-off', {
      what: `The end of state could not be put off: ${messageOf(error)}`,
      next: 'Check the store. Calls that change nothing are served, and try again.',
    });

  return {
    load(exchange) {
      const { store, kind, isNew } = exchange.carrier;
      if (!store || kind === 'none' || !exchange.isHandled) return undefined;
      const load = isNew ? emptyShelf : (key: string) => loadShelf(store, key);
      const [session, server] = SCOPES.map((scope) => load(storeKey(name, scope, exchange.carrier)));
      return Promise.all([session, server]).then(
        (both) => void loads.set(exchange, { shelves: { session: both[0], server: both[1] }, store }),
        (failed: unknown) => void loads.set(exchange, { failed }),
      ) as Promise<undefined>;
    },

    source(exchange, scope) {
      const loaded = loads.get(exchange);
      if (!loaded) return nowhere(exchange, shared !== undefined);
      if ('failed' in loaded) {
        exchange.note(loaded.failed);
        throw loaded.failed;
      }
      const shelf = loaded.shelves[scope];
      return shelf ? storedSource(shelf, exchange) : nowhere(exchange, true);
    },

    async save(exchange, changes) {
      const loaded = loads.get(exchange);
      if (!loaded || 'failed' in loaded) return;
      const { store } = loaded;
      const saving = await Promise.allSettled(
        SCOPES.map(async (scope) => {
          const shelf = loaded.shelves[scope];
          const nothing = changes[scope].size === 0;
          const ttl = ttlOf(exchange, scope);
          const mayExpire = scope === 'session' || exchange.carrier.principal === null;
          if (!shelf || (nothing && !(mayExpire && isHalfOver(shelf, ttl)))) return false;
          if (!nothing) {
            await place(exchange, scope, shelf, store).catch(tell);
            note(exchange, scope);
          }
          const count = countOf(exchange, shelf, ttl, store);
          const longest = isBearer(exchange.carrier) ? LONGEST : undefined;
          const saving = { scope, keys, ttl, count, longest };
          const saved = saveShelf(store, shelf, changes[scope], saving).catch(tell);
          await (nothing ? saved.catch(notPutOff) : saved);
          return !nothing;
        }),
      );
      const failed = saving.find((each) => each.status === 'rejected');
      const isPartlySaved = saving.some((each) => each.status === 'fulfilled' && each.value);
      if (failed) throw isPartlySaved ? partlyDone(failed.reason) : failed.reason;
    },
  };
}

/** Returns a source without storage: reading finds nothing, and setting throws an error that says what to configure. */
function nowhere(exchange: Exchange, hasStore: boolean): Source {
  return {
    names: () => [],
    read: () => undefined,
    checkWritable() {
      throw noCarrier(exchange, hasStore);
    },
  };
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

/** Whether session state has passed half of its life. It is then written again, since state in use must not expire. */
function isHalfOver({ found }: Shelf, ttl: number): boolean {
  const { expiresAt } = found ?? {};
  return expiresAt !== undefined && expiresAt - Date.now() < (ttl * 1000) / 2;
}
