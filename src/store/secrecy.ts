import type { Store } from './types.ts';

/** What keeps others from reading what a store holds; `'host'` where that is the affair of whoever brought the store. */
export type Secrecy = 'memory' | 'sealed' | 'keychain' | 'host';

const known = new WeakMap<Store, Secrecy>();

/** A driver says of its store that what it holds cannot be read by others. */
export function declareSecrecy<S extends Store>(store: S, secrecy: Secrecy | undefined): S {
  if (secrecy) known.set(store, secrecy);
  return store;
}

/** What keeps others from reading what the store holds; undefined where nothing that we know of does. */
export function secrecyOf(store: Store): Secrecy | undefined {
  return known.get(store);
}
