import { memoryStore, type Store } from 'mcp-valise/store';
import { ValiseError } from '../../src/core/errors.ts';

/** Where the store is; for nobody but the author. */
export const PLACE = 'Redis at 10.0.0.7:6379';

/** What a client hears where the store is away. */
export const HIDDEN = {
  code: -32603,
  message:
    'Internal error: the server cannot reach its store at the moment. Nothing was saved. Try again later.',
  data: { 'dev.valise/outcome': 'not-done' },
};

/** A store that can be cut off, and says where it is when it is. */
export function cuttable() {
  const store = memoryStore();
  const cut = { off: false, only: /./, writes: false, refused: [] as string[] };
  const trouble = (key: string) => {
    cut.refused.push(key);
    const what = `${PLACE} failed: connect ECONNREFUSED.`;
    return Promise.reject(new ValiseError('store-unavailable', what, { outcome: 'not-done' }));
  };
  const get = (_: Store, method: keyof Store) => {
    const own = (store[method] as (...args: unknown[]) => unknown).bind(store);
    return (...args: unknown[]) =>
      cut.off && cut.only.test(String(args[0])) && !(cut.writes && method === 'get')
        ? trouble(String(args[0]))
        : own(...args);
  };
  return { store: new Proxy(store, { get } as ProxyHandler<Store>), cut };
}
