/** Keyv: a store of Valise as a storage adapter, and what Keyv is connected to as a store of Valise. */
import { Keyv } from 'keyv';
import { keyvStorage, storeFrom } from 'mcp-valise/adapters';
import type { Store } from 'mcp-valise/store';

export function openKeyv(store: Store, namespace: string): Keyv {
  return new Keyv({ store: keyvStorage(store), namespace });
}

/** Works for Keyv on Redis and PostgreSQL, and refuses maps and others that cannot compare and set. */
export function storeOf(keyv: Keyv): Promise<Store> {
  return storeFrom(keyv);
}
