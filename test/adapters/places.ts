import { join } from 'node:path';
import { memoryStore, openStore, type Store } from 'mcp-valise/store';
import { onTestFinished } from 'vitest';
import { service, uniqueName } from '../services.ts';
import { temporaryFolder } from '../store/places.ts';

/** Opens what several instances share, once for each; closed when the test is over. */
export type OpenShared = () => Promise<Store>;

const servers = [
  ['Redis', await service('redis')],
  ['PostgreSQL', await service('postgres')],
] as const;

/** The stores that every adapter is tried on. */
export const places: readonly (readonly [name: string, share: () => OpenShared])[] = [
  [
    'memory',
    () => {
      const store = memoryStore();
      return async () => store;
    },
  ],
  [
    'SQLite',
    () => {
      const { folder, remove } = temporaryFolder();
      onTestFinished(remove);
      return () => opened(`sqlite:${join(folder, 'state.db')}`);
    },
  ],
  ...servers.flatMap(([name, url]) => (url === undefined ? [] : [[name, () => at(url)] as const])),
];

function at(url: string): OpenShared {
  const prefix = uniqueName();
  return () => opened(url, prefix);
}

async function opened(url: string, prefix?: string): Promise<Store> {
  const store = await openStore(url, prefix === undefined ? {} : { prefix });
  onTestFinished(() => store.close());
  return store;
}
