import { randomUUID } from 'node:crypto';
import { memoryStore, openStore, type Store } from 'mcp-valise/store';
import { inject, onTestFinished } from 'vitest';

/** Where two instances share a store: `open` opens it once for each. */
export const SHARED: readonly (readonly [name: string, share: () => () => Promise<Store>])[] = [
  [
    'memory',
    () => {
      const store = memoryStore();
      return async () => store;
    },
  ],
  [
    'Redis',
    () => {
      const prefix = `${randomUUID()}/`;
      return async () => {
        const store = await openStore(inject('redis'), { prefix });
        onTestFinished(() => store.close());
        return store;
      };
    },
  ],
];
