import { openStore, type Store } from 'mcp-valise/store';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { service, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { MAJORS } from './majors.ts';
import { textOf } from './raw-client.ts';
import { tool } from './state-tool.ts';

const keys = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';
const urls = { redis: await service('redis'), postgres: await service('postgres') };

describe.each(['redis', 'postgres'] as const)('state of a client that carries none, in %s', (kind) => {
  describe.skipIf(!urls[kind])(
    'two instances with a shared store',
    because('needs a server that is not here'),
    () => {
      const name = uniqueName();
      let stores: Store[];

      beforeAll(async () => {
        stores = await Promise.all([openStore(urls[kind] as string), openStore(urls[kind] as string)]);
      });

      afterAll(() => Promise.all(stores.map((store) => store.close())));

      it('one instance reads the state that another one set, and names that both set at once are not lost', async () => {
        let count = 0;
        const instances = await Promise.all(
          stores.map((store, at) =>
            tool(
              MAJORS[at % 2] as (typeof MAJORS)[number],
              ({ server }) => {
                server.set(`k${count++}`, { __proto__: null, at });
                return server.keys().length;
              },
              { name, keys, store, principal: () => ({ subject: 'ann' }) },
              {},
            ),
          ),
        );
        const calls = Array.from({ length: 30 }, (_, n) => instances[n % 2]?.call('work'));
        for (const result of await Promise.all(calls)) expect(result).not.toHaveProperty('isError');
        for (const [at, instance] of instances.entries())
          expect(textOf(await instance.call('work'))).toBe(String(31 + at));
      });
    },
  );
});
