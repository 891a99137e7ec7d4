import { messageOf } from '../../errors.ts';
import type { Link } from '../../link/instrument.ts';
import { type Era, MAX_AGE, type Scope } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange } from '../exchange.ts';
import { type Fault, keepToAuthor } from '../fault.ts';
import { Slot } from '../slot.ts';
import type { Keys } from './key.ts';
import { isNamed, noCarrier, ownersOf } from './owner.ts';
import type { Changes, Source } from './source.ts';
import { loadShelf, type Shelf, saveShelf, storedSource } from './stored.ts';

type Shelves = { readonly [S in Scope]: Shelf | undefined };

/** What became of loading: the shelves, or why there are none. */
type Loaded = { readonly shelves: Shelves } | { readonly failed: unknown };

/** Keeps the state of clients that carry none, in the server's store. */
export interface Keeper {
  /** Loads what the store has for a request; undefined where there is no store, nobody to keep for, or no handler. */
  load(exchange: Exchange): Promise<undefined> | undefined;
  /** What was loaded for a scope. Throws what loading threw: only a handler that asks for state need suffer. */
  source(exchange: Exchange, scope: Scope): Source;
  /** Writes changes back. */
  save(exchange: Exchange, changes: { readonly [S in Scope]: Changes }): Promise<void>;
  /** Where a connection was the session, what was kept for it ends with it. */
  forget(link: Link): void;
}

export interface KeeperOptions {
  readonly keys: Keys;
  /** How long session state stays after its last use, in seconds. */
  readonly sessionTtl: number;
  /** Data-layer sessions are proved by another part. */
  readonly withSessions: boolean;
  readonly fault: Fault;
}

const SCOPES: readonly Scope[] = ['session', 'server'];

const loads = new Slot<Loaded>();

export function createKeeper(
  { store, name, warnOnce }: ServerContext,
  { keys, sessionTtl, withSessions, fault }: KeeperOptions,
): Keeper {
  const ttls: { readonly [S in Scope]: number } = { session: sessionTtl, server: MAX_AGE };
  const ofLink = new WeakMap<Link, Set<string>>();

  const note = (exchange: Exchange, scope: Scope, key: string): void => {
    if (scope === 'server') {
      if (isNamed(exchange)) return;
      warnOnce('server-state-without-principal', {
        what: 'Server-scope state of a client that carries none ends with its session, since nothing names who asks.',
        next: 'Verify who asks (authInfo), or give createValise the option principal.',
      });
    }
    if (!exchange.transportSession?.startsWith('link:')) return;
    const noted = ofLink.get(exchange.link);
    if (noted) noted.add(key);
    else ofLink.set(exchange.link, new Set([key]));
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
        keepToAuthor(exchange, loaded.failed, fault);
        throw loaded.failed;
      }
      const shelf = loaded.shelves[scope];
      return shelf ? storedSource(shelf, exchange) : nowhere(true, exchange.era);
    },

    async save(exchange, changes) {
      const loaded = loads.get(exchange);
      if (!store || !loaded || 'failed' in loaded) return;
      await Promise.all(
        SCOPES.map(async (scope) => {
          const shelf = loaded.shelves[scope];
          const nothing = changes[scope].size === 0;
          if (!shelf || (nothing && !(scope === 'session' && isHalfOver(shelf, sessionTtl)))) return;
          if (!nothing) note(exchange, scope, shelf.key);
          const saving = saveShelf(store, shelf, changes[scope], { scope, keys, ttl: ttls[scope] });
          await (nothing ? saving.catch(notPutOff) : saving);
        }),
      );
    },

    forget(link) {
      // What cannot be deleted now ends by its own time.
      for (const key of ofLink.get(link) ?? []) store?.delete(key).catch(() => undefined);
    },
  };
}

/** No place at all: reading finds nothing, and setting says what to configure. */
function nowhere(hasStore: boolean, era: Era): Source {
  return {
    names: () => [],
    read: () => undefined,
    checkWritable() {
      throw noCarrier(hasStore, era);
    },
  };
}

/** Session state in use must not end: past the half of its life it is written again. */
function isHalfOver({ expiresAt }: Shelf, ttl: number): boolean {
  return expiresAt !== undefined && expiresAt - Date.now() < (ttl * 1000) / 2;
}
