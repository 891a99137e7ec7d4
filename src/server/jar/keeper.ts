import { messageOf, ValiseError } from '../../errors.ts';
import { type Era, MAX_AGE, type Scope } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange, ServerLink } from '../exchange.ts';
import { partlyDone } from '../fault.ts';
import { Quota } from '../quota.ts';
import { Slot } from '../slot.ts';
import type { Keys } from './key.ts';
import { isNamed, noCarrier, ownersOf } from './owner.ts';
import { LocalPlaces, type PlacesSettings, StatePlaces, tooMuch } from './places.ts';
import type { Changes, Source } from './source.ts';
import { loadShelf, type Shelf, type ShelfCount, saveShelf, storedSource } from './stored.ts';

type Shelves = { readonly [S in Scope]: Shelf | undefined };

/** The result of loading: the state, or the error. */
type Loaded = { readonly shelves: Shelves } | { readonly failed: unknown };

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
  /** Whether data-layer sessions are enabled. Another middleware proves them. */
  readonly withSessions: boolean;
  readonly limits: PlacesSettings;
}

const SCOPES: readonly Scope[] = ['session', 'server'];

const loads = new Slot<Loaded>();

export function createKeeper(
  { store, name, events, warnOnce }: ServerContext,
  { keys, sessionTtl, withSessions, limits }: KeeperOptions,
): Keeper {
  const places = store && new StatePlaces(store, name, sessionTtl, limits);
  const local = new LocalPlaces(limits);
  const held = new Quota({
    perCaller: { bytes: limits.maxAnonymousBytes / 10 },
    total: { bytes: limits.maxAnonymousBytes },
  });
  // Without a principal, server scope ends with the session, and is stored no longer than that.
  const ttlOf = (exchange: Exchange, scope: Scope): number =>
    scope === 'server' && isNamed(exchange) ? MAX_AGE : sessionTtl;

  /** Takes a place for state that is written for the first time. A principal's own entry of server scope needs none. */
  const place = async (exchange: Exchange, scope: Scope, { key, found }: Shelf): Promise<void> => {
    const { link, transportSession } = exchange;
    const isLasting = scope === 'server' && isNamed(exchange);
    // State that ends with a connection of this process is counted here.
    if (transportSession?.startsWith('link:')) {
      const noted = keptFor(link);
      if (!isLasting && !noted.has(key)) noted.set(key, local.take(exchange));
    } else if (!found && !isLasting) await places?.take(exchange, key);
  };
  /** Returns the byte count of anonymous callers, whose state is limited in bytes too. */
  const countOf = ({ caller }: Exchange, { key }: Shelf, ttl: number): ShelfCount | undefined =>
    caller.isAnonymous
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
  const keptFor = (link: ServerLink): Map<string, () => void> => {
    const known = ofLink.get(link);
    if (known) return known;
    const kept = new Map<string, () => void>();
    ofLink.set(link, kept);
    link.closed.addEventListener('abort', () => {
      for (const [key, leave] of kept) {
        leave();
        held.release(key);
        // An entry that cannot be deleted now expires by itself.
        store?.delete(key).catch(() => undefined);
      }
    });
    return kept;
  };

  const note = (exchange: Exchange, scope: Scope): void => {
    if (scope === 'server') {
      if (isNamed(exchange)) return;
      warnOnce('server-state-without-principal', {
        what: 'Server-scope state of a client that carries none ends with its session, since nothing names who asks.',
        next: 'Verify who asks (authInfo), or give createValise the option principal.',
      });
    }
  };

  const notPutOff = (error: unknown): void =>
    warnOnce('state-not-put-off', {
      what: `The end of state could not be put off: ${messageOf(error)}`,
      next: 'Check the store. Calls that change nothing are served, and try again.',
    });

  return {
    load(exchange) {
      if (!store) return undefined;
      const owners = ownersOf(exchange, name, withSessions);
      if (!owners || !exchange.isHandled) return undefined;
      return Promise.all([loadShelf(store, owners.session), loadShelf(store, owners.server)]).then(
        ([session, server]) => void loads.set(exchange, { shelves: { session, server } }),
        (failed: unknown) => void loads.set(exchange, { failed }),
      ) as Promise<undefined>;
    },

    source(exchange, scope) {
      const loaded = loads.get(exchange);
      if (!loaded) return nowhere(store !== undefined, exchange.era);
      if ('failed' in loaded) {
        exchange.note(loaded.failed);
        throw loaded.failed;
      }
      const shelf = loaded.shelves[scope];
      return shelf ? storedSource(shelf, exchange) : nowhere(true, exchange.era);
    },

    async save(exchange, changes) {
      const loaded = loads.get(exchange);
      if (!store || !loaded || 'failed' in loaded) return;
      const saving = await Promise.allSettled(
        SCOPES.map(async (scope) => {
          const shelf = loaded.shelves[scope];
          const nothing = changes[scope].size === 0;
          const ttl = ttlOf(exchange, scope);
          if (!shelf || (nothing && !(ttl === sessionTtl && isHalfOver(shelf, sessionTtl)))) return false;
          if (!nothing) {
            await place(exchange, scope, shelf).catch(tell);
            note(exchange, scope);
          }
          const count = countOf(exchange, shelf, ttl);
          const saved = saveShelf(store, shelf, changes[scope], { scope, keys, ttl, count }).catch(tell);
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
function nowhere(hasStore: boolean, era: Era): Source {
  return {
    names: () => [],
    read: () => undefined,
    checkWritable() {
      throw noCarrier(hasStore, era);
    },
  };
}

/** Whether session state has passed half of its life. It is then written again, since state in use must not expire. */
function isHalfOver({ found }: Shelf, ttl: number): boolean {
  const { expiresAt } = found ?? {};
  return expiresAt !== undefined && expiresAt - Date.now() < (ttl * 1000) / 2;
}
