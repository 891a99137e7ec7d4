import fc from 'fast-check';
import type { Json, Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Direct, openDirect } from './direct.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const HOSTS = ['https://a.example.com', 'https://b.example.com', 'https://c.example.org'] as const;
const name = fc.constantFrom('a', 'b', '__proto__', 'constructor', '', 'ä b');
// As text has it: there is no -0 in what comes over a wire.
const value = fc.jsonValue({ maxDepth: 3 }).map((each) => JSON.parse(JSON.stringify(each)) as Json);
const host = fc.constantFrom(0, 1, 2);
const scope = fc.constantFrom('session' as const, 'server' as const);

const step = fc.oneof(
  fc.record({
    do: fc.constant('set' as const),
    host,
    scope,
    name,
    value,
    age: fc.option(fc.integer({ min: 1, max: 100 })),
  }),
  fc.record({ do: fc.constant('wait' as const), seconds: fc.integer({ min: 1, max: 60 }) }),
  fc.record({
    do: fc.constant('clear' as const),
    host: fc.option(host),
    scope: fc.option(scope),
    name: fc.option(name),
  }),
  fc.record({ do: fc.constant('reopen' as const) }),
);

/** A dictionary in which every name is a name like any other, also when it is compared. */
const plain = (entries: Iterable<readonly [string, Json]>) =>
  [...entries].sort(([a], [b]) => (a < b ? -1 : 1));
const sentBy = (side: ReturnType<Direct['at']>, its: 'session' | 'server') =>
  plain(Object.entries((side.sent()[its] ?? {}) as Record<string, Json>));

describe('the jar in any sequence of events', () => {
  it('[J-05][J-06][J-07][J-10][J-11][J-12][J-13][J-19] The jar sends what a plain dictionary per server and scope would contain', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const store = memoryStore();
        let direct = await openDirect({ store });
        let sides = HOSTS.map((url) => direct.at(url));
        const model = HOSTS.map(() => ({
          session: new Map<string, { value: Json; until: number }>(),
          server: new Map<string, { value: Json; until: number }>(),
        }));
        for (const one of steps) {
          if (one.do === 'set') {
            const attributes =
              one.age === null ? undefined : { [one.scope]: { [one.name]: { 'max-age': one.age } } };
            const update: Record<string, Json> = Object.create(null);
            update[one.name] = one.value;
            const given = one.name === '__proto__' ? undefined : attributes;
            await sides[one.host]!.set({ [one.scope]: update }, given);
            const held = model[one.host]![one.scope];
            const age = given ? (one.age as number) : 34_560_000;
            if (one.value === null) held.delete(one.name);
            else held.set(one.name, { value: one.value, until: Date.now() + age * 1000 });
          } else if (one.do === 'wait') vi.setSystemTime(Date.now() + one.seconds * 1000);
          else if (one.do === 'clear') {
            await direct.jar.clear({
              ...(one.host !== null && { server: HOSTS[one.host] }),
              ...(one.scope !== null && { scope: one.scope }),
              ...(one.name !== null && { key: one.name }),
            });
            for (const [at, both] of model.entries()) {
              if (one.host !== null && one.host !== at) continue;
              for (const its of ['session', 'server'] as const) {
                if (one.scope !== null && one.scope !== its) continue;
                if (one.name === null) both[its].clear();
                else both[its].delete(one.name);
              }
            }
          } else {
            await direct.jar.close();
            direct = await openDirect({ store });
            sides = HOSTS.map((url) => direct.at(url));
            for (const both of model) both.session.clear();
          }
          for (const [at, both] of model.entries()) {
            for (const its of ['session', 'server'] as const) {
              const living = [...both[its]].filter(([, { until }]) => until > Date.now());
              const expected = plain(
                living.map(([key, held]) => [key, JSON.parse(JSON.stringify(held.value))] as const),
              );
              expect(sentBy(sides[at]!, its)).toEqual(expected);
            }
          }
        }
      }),
      { numRuns: 150 },
    );
  });

  it('Several jars on one store converge to the last value of each key', async () => {
    const write = fc.record({
      jar: fc.constantFrom(0, 1, 2),
      key: fc.constantFrom('a', 'b', 'c'),
      turns: fc.nat(3),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(write, { maxLength: 25 }),
        fc.infiniteStream(fc.nat(3)),
        async (writes, delays) => {
          const store = slow(memoryStore(), delays);
          const jars = await Promise.all([0, 1, 2].map(() => openDirect({ store })));
          const sides = jars.map((jar) => jar.at(HOSTS[0]));
          const last = new Map<string, number>();
          const pending: Promise<void>[] = [];
          for (const [at, { jar, key, turns }] of writes.entries()) {
            // Each jar writes keys of its own: then the last value of a key is the last one that its jar set.
            pending.push(sides[jar]!.set({ server: { [`${jar}${key}`]: at } }));
            last.set(`${jar}${key}`, at);
            for (let turn = 0; turn < turns; turn++) await Promise.resolve();
          }
          await Promise.all(pending);
          const fresh = (await openDirect({ store })).at(HOSTS[0]);
          expect(fresh.sent().server ?? {}).toEqual(Object.fromEntries(last));
        },
      ),
      { numRuns: 150 },
    );
  });
});

/** A store whose answers take some turns of the event loop. */
function slow(store: Store, delays: Iterator<number>): Store {
  const wait = async () => {
    for (let turn = delays.next().value as number; turn > 0; turn--) await new Promise(setImmediate);
  };
  const put = store.put.bind(store);
  const get = store.get.bind(store);
  store.put = async (...args) => {
    await wait();
    const version = await put(...args);
    await wait();
    return version;
  };
  store.get = async (key) => {
    await wait();
    return get(key);
  };
  return store;
}
