/** unstorage: a store of Valise as a driver, and what a driver is connected to as a store of Valise. */
import { storeFrom, unstorageDriver } from 'mcp-valise/adapters';
import type { Store } from 'mcp-valise/store';
import { createStorage, type Driver, type Storage } from 'unstorage';

export function openStorage(store: Store): Storage {
  return createStorage({ driver: unstorageDriver(store) });
}

/** Works for drivers on Redis, and refuses files, memory and others that cannot compare and set. */
export function storeOf(driver: Driver): Promise<Store> {
  return storeFrom(createStorage({ driver }));
}
