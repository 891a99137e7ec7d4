import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type ContractOptions, storeContract } from 'mcp-valise/testing';
import { describe, expect, it } from 'vitest';
import { memoryStore, type Store } from '../../src/store/index.ts';
import { memoryBus } from '../../src/store/memory/bus.ts';
import { temporaryFolder, tsx } from './places.ts';
import { tornStore } from './torn-store.ts';

/** Runs the contract as a runner would; the titles of what failed. */
async function failuresOf(
  open: () => Store,
  options: ContractOptions = { reopens: false, processes: false },
): Promise<string[]> {
  const cases: { title: string; body: () => Promise<void> }[] = [];
  const runner: Parameters<typeof storeContract>[1] = {
    describe: (_, body) => body(),
    it: (title, body) => void cases.push({ title, body }),
  };
  storeContract(() => ({ open }), runner, { scale: 0.02, ...options });
  const failures: string[] = [];
  await Promise.all(
    cases.map(({ title, body }) =>
      body().catch(() => {
        failures.push(title);
      }),
    ),
  );
  expect(cases.length).toBeGreaterThan(20);
  return failures;
}

/** A store that is right but for one thing. */
function broken(change: (store: Store) => Partial<Store>): () => Store {
  return () => {
    const store = memoryStore();
    const whole: Store = {
      get: (key) => store.get(key),
      put: (key, value, options) => store.put(key, value, options),
      delete: (key, options) => store.delete(key, options),
      list: (prefix, options) => store.list(prefix, options),
      lease: (key, ttl) => store.lease(key, ttl),
      close: () => store.close(),
    };
    return { ...whole, ...change(whole) };
  };
}

describe('the store contract', () => {
  it('The contract passes a store that fulfills it', async () => {
    expect(await failuresOf(broken(() => ({})))).toEqual([]);
  });

  it.concurrent.each<[string, (store: Store) => Partial<Store>, RegExp]>([
    [
      'forgets conditions',
      ({ put }) => ({ put: (key, value, { ttl } = {}) => put(key, value, ttl === undefined ? {} : { ttl }) }),
      /loses none of .* increments|ifVersion/,
    ],
    [
      'checks and writes in two steps',
      ({ get, put }) => ({
        put: async (key, value, { ifVersion, ifAbsent, ...options } = {}) => {
          const entry = await get(key);
          if (ifVersion !== undefined && entry?.version !== ifVersion) return undefined;
          if (ifAbsent && entry) return undefined;
          return put(key, value, options);
        },
      }),
      /loses none of .* increments through 8 writers/,
    ],
    [
      'counts versions from one for each key',
      ({ get, put, delete: remove }) => {
        const versions = new Map<string, number>();
        return {
          get: async (key) => {
            const entry = await get(key);
            return entry && { ...entry, version: String(versions.get(key)) };
          },
          put: async (key, value, { ifVersion, ...options } = {}) => {
            if (ifVersion !== undefined && String(versions.get(key)) !== ifVersion) return undefined;
            if ((await put(key, value, options)) === undefined) return undefined;
            versions.set(key, (versions.get(key) ?? 0) + 1);
            return String(versions.get(key));
          },
          delete: async (key, { ifVersion } = {}) => {
            if (ifVersion !== undefined && String(versions.get(key)) !== ifVersion) return false;
            versions.delete(key);
            return remove(key);
          },
        };
      },
      /no version returns after a delete/,
    ],
    [
      'forgets lifetimes',
      ({ put }) => ({ put: (key, value, { ttl: _, ...rest } = {}) => put(key, value, rest) }),
      /An entry expires/,
    ],
    [
      'returns its own objects instead of copies',
      () => {
        const values = new Map<string, Awaited<ReturnType<Store['get']>>>();
        return {
          get: async (key) => values.get(key),
          put: async (key, value) => {
            values.set(key, { value, version: String(Math.random()) });
            return values.get(key)?.version;
          },
        };
      },
      /The store keeps a copy/,
    ],
    [
      'uses a cursor as a number of keys to skip',
      ({ list }) => ({
        list: async (prefix, { cursor = '0', limit = 1000 } = {}) => {
          const { keys } = await list(prefix, { limit: 10_000 });
          const from = Number(cursor);
          const page = keys.slice(from, from + limit);
          return from + limit < keys.length ? { keys: page, cursor: String(from + limit) } : { keys: page };
        },
      }),
      /exactly once while others write/,
    ],
    [
      'leaves unlisted entries out of lists and has no scan',
      ({ put, list }) => {
        const unlisted = new Set<string>();
        return {
          put: (key, value, options = {}) => {
            if (options.unlisted) unlisted.add(key);
            return put(key, value, options);
          },
          list: async (prefix, options) => {
            const page = await list(prefix, options);
            return { ...page, keys: page.keys.filter((key) => !unlisted.has(key)) };
          },
        };
      },
      /scan finds unlisted entries/,
    ],
    [
      'lists keys of another case',
      ({ list }) => ({
        list: async (prefix, options) => {
          const { keys } = await list('', { ...options, limit: 10_000 });
          return { keys: keys.filter((key) => key.toLowerCase().startsWith(prefix.toLowerCase())) };
        },
      }),
      /a prefix literally/,
    ],
    [
      'folds keys',
      ({ get, put }) => ({
        get: (key) => get(key.normalize()),
        put: (key, ...rest) => put(key.normalize(), ...rest),
      }),
      /Keys with unusual characters/,
    ],
    [
      'gives leases to all',
      () => ({ lease: async () => ({ fence: 1, renew: async () => true, release: async () => {} }) }),
      /one holder/,
    ],
    [
      'lets anybody release a lease',
      ({ lease }) => {
        let release = async () => {};
        return {
          lease: async (key, ttl) => {
            const held = await lease(key, ttl);
            if (held) release = held.release;
            return held && { ...held, release: () => release() };
          },
        };
      },
      /cannot be renewed once|A lease expires/,
    ],
    [
      'restarts the fence',
      ({ lease }) => ({
        lease: async (key, ttl) => {
          const held = await lease(key, ttl);
          return held && { ...held, fence: 1 };
        },
      }),
      /one holder until it is released/,
    ],
    [
      'keeps leases among the entries',
      ({ lease, put }) => ({
        lease: async (key, ttl) => {
          await put(key, 'leased');
          return lease(key, ttl);
        },
      }),
      /separate from the entry/,
    ],
    ['still works after close()', () => ({ close: async () => {} }), /close waits for operations/],
    ['accepts any key', ({ get }) => ({ get: (key) => get(key === '' ? 'empty' : key) }), /Invalid keys/],
  ])('The contract fails a store that %s', async (_, change, title) => {
    const failures = await failuresOf(broken(change));
    expect(failures.join('\n')).toMatch(title);
  });

  it('The contract fails a store that tears values when it is killed', async () => {
    const { folder, remove } = temporaryFolder();
    const options = { processes: true, execArgv: tsx, scale: 0.5 };
    const module = fileURLToPath(new URL('./torn-store.ts', import.meta.url));
    const failures: string[] = [];
    const cases: Promise<void>[] = [];
    storeContract(
      () => ({
        open: () => tornStore(folder),
        process: { module, export: 'tornStore', args: [folder] },
      }),
      {
        describe: (_, body) => body(),
        it: (title, body) => {
          if (title.includes('kill -9'))
            cases.push(body().catch((error) => void failures.push(String(error))));
        },
      },
      options,
    );
    await Promise.all(cases);
    expect(failures).toEqual([expect.stringContaining('a torn value')]);
    remove();
  });

  it('The contract runs in node:test too, with a custom driver', () => {
    const file = fileURLToPath(new URL('./own-driver.node.ts', import.meta.url));
    const { stdout, status } = spawnSync(process.execPath, [...tsx, '--test-reporter=tap', file], {
      encoding: 'utf8',
    });
    expect(stdout).toMatch(/^# pass [1-9]\d+$/m);
    expect(stdout).toMatch(/^# fail 0$/m);
    expect(status).toBe(0);
  });

  it('The bus contract requires a separate copy for each listener', async () => {
    const bus = memoryBus();
    const heard: unknown[] = [];
    await bus.subscribe('t', (message) => (message as { list: number[] }).list.push(1));
    await bus.subscribe('t', (message) => heard.push(message));
    await bus.publish('t', { list: [] });
    await new Promise(setImmediate);
    expect(heard).toEqual([{ list: [] }]);
  });
});
