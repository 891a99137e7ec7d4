import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Json } from '../../src/core/json.ts';
import { memoryStore, type Store } from '../../src/store/index.ts';

/** A store that writes its file piece by piece, as one must not. */
export function tornStore(folder: string): Store {
  const rest = memoryStore();
  const file = `${folder}/torn.json`;
  return {
    get: async () => {
      if (!existsSync(file)) return undefined;
      const text = readFileSync(file, 'utf8');
      try {
        return { value: JSON.parse(text) as Json, version: '1' };
      } catch {
        return { value: { number: 0, text }, version: '1' };
      }
    },
    put: async (_, value) => {
      const text = JSON.stringify(value);
      writeFileSync(file, '');
      for (let at = 0; at < text.length; at += 5000) {
        appendFileSync(file, text.slice(at, at + 5000));
        // Longer in pieces than whole, so that whoever is killed leaves pieces.
        await pause(1);
      }
      return '1';
    },
    delete: (key) => rest.delete(key),
    list: (prefix) => rest.list(prefix),
    lease: (key, ttl) => rest.lease(key, ttl),
    close: () => rest.close(),
  };
}
