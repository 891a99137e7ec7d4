import { type Keyring, parseKeys } from '../seal/index.ts';
import { declareSecrecy, secrecyOf } from '../store/driver.ts';
import { type Entry, openStore, type Store, sealedStore } from '../store/index.ts';
import { fileOf } from '../store/open.ts';
import { PlainEntryError } from '../store/plain.ts';
import { fromClientStateStore, isClientStateStore } from './connection/state-store.ts';
import { closedError } from './errors.ts';
import type { ClientEventSource } from './events.ts';
import { KEY_FILE } from './oauth/secrets.ts';
import type { ClientValiseOptions } from './options.ts';

/** The default store. */
const DEFAULT_STORE = 'sqlite:~/.valise/state.db';

/** The store of one Valise. */
export interface OwnStore {
  readonly store: Store;
  /** The file for the key of credentials if there is no keychain: beside a store that is a file. */
  readonly keyFile?: string;
  /** Sets whether the store rejects all further operations, even if it stays open. */
  refuse(isRefused: boolean): void;
  /** Closes a store that Valise has opened. A store that was passed in stays open. */
  release(): Promise<void>;
}

/** Opens the store of a Valise, or wraps one that was passed in. */
export async function ownStore(
  { store = DEFAULT_STORE, keys, telemetry }: ClientValiseOptions,
  events: ClientEventSource,
): Promise<OwnStore> {
  const measured = (own: Store, system: string): Store =>
    telemetry ? declareSecrecy(telemetry.store(own, system), secrecyOf(own)) : own;
  if (typeof store === 'string') {
    const opened = await openStore(store, { keys: keys ?? keysOfEnvironment() });
    const keyFile = keyFileOf(store);
    return {
      ...untilRefused(measured(opened, store.split(':', 1)[0] ?? 'custom'), events),
      keyFile,
      release: () => opened.close(),
    };
  }
  const own = isClientStateStore(store)
    ? fromClientStateStore(store)
    : keys === undefined
      ? store
      : sealedStore(store, keys);
  return { ...untilRefused(measured(own, 'custom'), events), release: async () => {} };
}

/** Returns the file with the key of credentials, for systems without a keychain. */
export function keyFileOf(url: string): string {
  const file = fileOf(url);
  return file === undefined ? KEY_FILE : `${file}.key`;
}

/** Reads the client's own variable. `VALISE_KEYS` contains a server's keys. */
function keysOfEnvironment(): Keyring | undefined {
  const text = process.env['VALISE_CLIENT_KEYS']?.trim();
  return text ? parseKeys(text) : undefined;
}

function untilRefused(store: Store, events: ClientEventSource): Omit<OwnStore, 'release'> {
  let refused = false;
  const orNothing = nothingForPlain(events);
  const refusal = () => Promise.reject(closedError());
  const entries = store.entries?.bind(store);
  const own: Store = {
    get: (key) => (refused ? refusal() : store.get(key).catch((error) => orNothing(key, error))),
    put: (key, value, options) => (refused ? refusal() : store.put(key, value, options)),
    delete: (key, options) => (refused ? refusal() : store.delete(key, options)),
    list: (prefix, options) => (refused ? refusal() : store.list(prefix, options)),
    ...(entries && {
      entries: (prefix, options) => (refused ? refusal() : entries(prefix, options)),
    }),
    lease: (key, ttl) => (refused ? refusal() : store.lease(key, ttl)),
    close: () => store.close(),
  };
  return {
    store: declareSecrecy(own, secrecyOf(store)),
    refuse(isRefused) {
      refused = isRefused;
    },
  };
}

/**
 * Handles an entry that was written without keys into a sealed store, so that it does not block all the others. Warns about
 * it and reads it as null, so that it can be overwritten and deleted. Its value is never used.
 */
function nothingForPlain(events: ClientEventSource): (key: string, error: unknown) => Entry {
  const told = new Set<string>();
  return (key, error) => {
    if (!(error instanceof PlainEntryError)) throw error;
    const { what, next = '', version } = error;
    if (!told.has(key)) {
      told.add(key);
      // Defers a warning found while Valise is opening, so that listeners added right after opening receive it.
      setImmediate(() => {
        if (events.has('warning')) events.emit('warning', { code: 'plain-entry', what, next });
        else told.delete(key);
      });
    }
    return { value: null, version };
  };
}
