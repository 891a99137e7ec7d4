import type { Store } from './types.ts';

/** What prevents others from reading a store. `'host'` means that whoever provided the store is responsible. */
export type Secrecy = 'memory' | 'sealed' | 'host';

const known = new WeakMap<Store, Secrecy>();

/** Declares what prevents others from reading a store. Drivers call it. */
export function declareSecrecy<S extends Store>(store: S, secrecy: Secrecy | undefined): S {
  if (secrecy) known.set(store, secrecy);
  return store;
}

/** Returns what prevents others from reading the store, or undefined if nothing is known to. */
export function secrecyOf(store: Store): Secrecy | undefined {
  return known.get(store);
}
