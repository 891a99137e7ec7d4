import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openBus, openStore } from '../../src/store/index.ts';
import { contentionCases } from '../../src/testing/contract-entries.ts';
import { service, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { temporaryFolder, tsx } from './places.ts';

const [redis, postgres] = [await service('redis'), await service('postgres')];

let folder: string;
let remove: () => void;
beforeEach(() => ({ folder, remove } = temporaryFolder()));
afterEach(() => remove());

describe('stores by URL', () => {
  const urls: [string, (() => string) | undefined][] = [
    ['memory:', () => 'memory:'],
    ['file:PATH', () => `file:${folder}/state.json`],
    ['sqlite:PATH', () => `sqlite:${folder}/state.db`],
    ['redis://…', redis ? () => redis : undefined],
    ['postgres://…', postgres ? () => postgres : undefined],
    ['postgresql://…', postgres ? () => postgres.replace(/^postgres:/, 'postgresql:') : undefined],
  ];
  for (const [name, url] of urls) {
    it.skipIf(!url)(
      `[C-10] The URL ${name} opens a store`,
      because('needs a server that is not here'),
      async () => {
        const prefix = `${uniqueName()}/`;
        const store = await openStore(url?.() as string, { prefix, timeout: '20s' });
        const version = await store.put('a', { b: 1 }, { ttl: 60 });
        expect(await store.get('a')).toMatchObject({ value: { b: 1 }, version });
        expect(await store.list('')).toEqual({ keys: ['a'] });
        expect(await store.delete('a')).toBe(true);
        await store.close();
      },
    );
  }

  it('A bus is chosen by its URL', async () => {
    for (const url of ['memory:', redis, postgres]) {
      if (!url) continue;
      const bus = await openBus(url);
      const heard = new Promise(
        (resolve) => void bus.subscribe('topic', resolve).then(() => bus.publish('topic', 1)),
      );
      expect(await heard).toBe(1);
      await bus.close();
    }
  });

  it.each(['file', 'sqlite'])('[C-09] Several processes can use %s safely at once', async (scheme) => {
    const url = `${scheme}:${folder}/state`;
    for (const { run } of contentionCases) {
      const open = () => openStore(url);
      const limits = { maxKeyBytes: 1024, maxValueBytes: 1e6, count: () => 20 };
      await run({ place: { open, url }, open, reopens: true, execArgv: tsx, ...limits });
      const store = await openStore(url);
      expect((await store.get('counter'))?.value).toBe(160);
      await store.delete('counter');
      await store.close();
    }
  });
});
