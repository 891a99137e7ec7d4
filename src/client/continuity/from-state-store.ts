import { ValiseError } from '../../errors.ts';
import { isObject, type Json } from '../../json.ts';
import { sha256 } from '../../sha256.ts';
import { memoryStore } from '../../store/memory/store.ts';
import { declareSecrecy } from '../../store/secrecy.ts';
import type { Entry, Store } from '../../store/types.ts';
import { readCredentials } from './credentials.ts';
import { type ClientStateStore, credentialsOf, metadataOf, snapshotOf, tokenInfoOf } from './state-store.ts';

type Slot = 'legacy' | 'modern' | 'credentials';

/**
 * Adapts a host's {@link ClientStateStore} to a Valise store. It holds one connection. Everything that has no place in it
 * is kept in memory and ends with the process.
 */
export function fromClientStateStore(host: ClientStateStore): Store {
  const memory = memoryStore();
  // The host's store does not say when its data was saved.
  const since = Date.now();
  let claimed: string | undefined;

  /** Returns the slot that a key belongs to. Returns undefined if the host's store has no place for it. */
  const slotOf = (key: string): Slot | undefined => {
    const match = /^(?:connection|credentials)\/([\w-]+\/[\w-]+)(?:\/(legacy|modern))?$/.exec(key);
    if (!match || (key.startsWith('connection/') && !match[2])) return undefined;
    claimed ??= match[1];
    if (claimed !== match[1]) throw oneTargetError();
    return key.startsWith('credentials/') ? 'credentials' : (match[2] as Slot);
  };

  const read = async (slot: Slot, key: string): Promise<Json | undefined> => {
    const own = (await memory.get(key))?.value;
    if (slot === 'credentials') {
      const token = await host.getAccessToken();
      return token ? json({ ...(isObject(own) && own), ...credentialsOf(token) }) : own;
    }
    const metadata = await host.getServerMetadata();
    const sessionId = (await host.getSessionId()) ?? undefined;
    const snapshot = metadata && snapshotOf(sessionId, metadata, since);
    if (snapshot?.era !== slot) return undefined;
    // This process remembers more of the same session than the host's store can hold.
    const same = isObject(own) && own['sessionId'] === sessionId;
    return json({ ...snapshot, ...(same && own) });
  };

  const entry = async (slot: Slot, key: string): Promise<Entry | undefined> => {
    const value = await read(slot, key);
    return value === undefined ? undefined : { value, version: versionOf(value) };
  };

  const write = async (slot: Slot, value: Json): Promise<void> => {
    if (slot === 'credentials') {
      const token = tokenInfoOf(readCredentials(value));
      if (token) await host.setAccessToken(token);
      else if (await host.getAccessToken()) await host.clearAccessToken();
      return;
    }
    const metadata = metadataOf(value);
    if (!metadata) return;
    const sessionId = isObject(value) ? value['sessionId'] : undefined;
    if (typeof sessionId === 'string') {
      if ((await host.getSessionId()) !== sessionId) await host.setSessionId(sessionId);
    } else if (slot === 'legacy' && (await host.getSessionId())) await host.clearSessionId();
    if (JSON.stringify(await host.getServerMetadata()) !== JSON.stringify(metadata))
      await host.setServerMetadata(metadata);
  };

  const clear = async (slot: Slot): Promise<void> => {
    if (slot === 'credentials') return void (await host.clearAccessToken());
    if (slot === 'legacy') await host.clearSessionId();
    await host.clearServerMetadata();
  };

  // Operations run one at a time, so that nothing comes between a condition and the write that depends on it.
  let turn: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const done = turn.then(work);
    turn = done.catch(() => {});
    return done;
  };

  const store: Store = {
    async get(key) {
      const slot = slotOf(key);
      return slot ? inTurn(() => entry(slot, key)) : memory.get(key);
    },
    async put(key, value, options = {}) {
      const slot = slotOf(key);
      if (!slot) return memory.put(key, value, options);
      return inTurn(async () => {
        const now = await entry(slot, key);
        if (options.ifAbsent && now) return undefined;
        if (options.ifVersion !== undefined && now?.version !== options.ifVersion) return undefined;
        await memory.put(key, value);
        await write(slot, value);
        const written = await read(slot, key);
        return versionOf(written ?? value);
      });
    },
    async delete(key, options = {}) {
      const slot = slotOf(key);
      if (!slot) return memory.delete(key, options);
      return inTurn(async () => {
        const now = await entry(slot, key);
        if (!now || (options.ifVersion !== undefined && now.version !== options.ifVersion)) return false;
        await memory.delete(key);
        await clear(slot);
        return true;
      });
    },
    list: (prefix, options) => memory.list(prefix, options),
    lease: (key, ttl) => memory.lease(key, ttl),
    close: () => memory.close(),
  };
  return declareSecrecy(store, 'host');
}

function json(value: object): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}

function versionOf(value: Json): string {
  const { savedAt: _, ...rest } = (isObject(value) ? value : {}) as Record<string, unknown>;
  return sha256(JSON.stringify(rest));
}

function oneTargetError(): ValiseError {
  return new ValiseError(
    'store-one-target',
    'A ClientStateStore keeps one connection, and this one has another.',
    {
      next: 'Give each its own: valise.http(url, { store }).',
    },
  );
}
