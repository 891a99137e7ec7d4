import { chownSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { storeContract } from 'mcp-valise/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fileStore, openStore } from '../../src/store/index.ts';
import { soak, temporaryFolder, tsx } from './places.ts';

storeContract(
  () => {
    const { folder, remove } = temporaryFolder();
    const file = `${folder}/state.json`;
    return { open: () => fileStore(file), url: `file:${file}`, remove };
  },
  { describe, it },
  { name: 'file', execArgv: tsx, scale: soak ? 3 : 0.25 },
);

describe('a file store', () => {
  let folder: string;
  let remove: () => void;
  beforeEach(() => ({ folder, remove } = temporaryFolder()));
  afterEach(() => remove());

  it('[C-11] One line creates a file store, for its owner alone, as one file', async () => {
    const store = fileStore(`${folder}/mcp-state.json`);
    await store.put('github.com', { sessionId: 'abc' });
    await store.close();
    expect(statSync(`${folder}/mcp-state.json`).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['mcp-state.json']);
  });

  it.runIf(process.platform === 'linux')(
    'A file store fails if no folder can be created, and stops trying',
    async () => {
      await expect(openStore('file:/proc/nobody/state.json')).rejects.toMatchObject({ code: 'store-failed' });
      writeFileSync(`${folder}/file`, '');
      await expect(openStore(`file:${folder}/file/state.json`)).rejects.toMatchObject({
        code: 'store-failed',
      });
      const deep = await openStore(`file:${folder}/a/b/state.json`);
      await deep.close();
      expect(statSync(`${folder}/a`).mode & 0o777).toBe(0o700);
    },
  );

  it('A file store is JSON that a person can read, one entry per line', async () => {
    const store = fileStore(`${folder}/state.json`);
    await store.put('a', { x: [1, 'two'] });
    const version = await store.put('__proto__', 'odd');
    const text = readFileSync(`${folder}/state.json`, 'utf8');
    expect(text.split('\n')).toContain(`"__proto__":{"version":"${version}","value":"odd"}`);
    expect((JSON.parse(text) as { entries: { a: object } }).entries.a).toMatchObject({
      value: { x: [1, 'two'] },
    });
    await store.close();
  });

  it('A file store sees changes that a person made by hand', async () => {
    const store = fileStore(`${folder}/state.json`);
    await store.put('colour', 'red');
    const text = readFileSync(`${folder}/state.json`, 'utf8');
    writeFileSync(`${folder}/state.json`, text.replace('red', 'green'));
    expect((await store.get('colour'))?.value).toBe('green');
    await store.close();
  });

  it('A file store omits expired entries from the file', async () => {
    const store = fileStore(`${folder}/state.json`);
    await store.put('over', 'gone', { ttl: 0.01 });
    while (await store.get('over'));
    await store.put('other', 1);
    expect(readFileSync(`${folder}/state.json`, 'utf8')).not.toContain('gone');
    await store.close();
  });

  it('A file store writes concurrent changes together', async () => {
    const store = fileStore(`${folder}/state.json`);
    await store.put('first', 1);
    const numbers = new Set<number>();
    const written = Array.from({ length: 300 }, async (_, n) => {
      await store.put(`${n}`, n);
      numbers.add(statSync(`${folder}/state.json`).mtimeMs);
    });
    await Promise.all(written);
    expect(numbers.size).toBeLessThanOrEqual(2);
    await store.close();
  });

  it.runIf(process.getuid?.() === 0)('A file store keeps its owner when root writes to it', async () => {
    const file = `${folder}/state.json`;
    writeFileSync(file, '', { mode: 0o600 });
    chownSync(file, 1234, 1234);
    const store = fileStore(file);
    await store.put('a', 1);
    await store.close();
    expect(statSync(file)).toMatchObject({ uid: 1234, gid: 1234 });
  });

  it('Any spelling of its path opens a file store', async () => {
    const before = { home: process.env.HOME, cwd: process.cwd() };
    process.env.HOME = folder;
    try {
      await (await openStore(`file:${folder}/state.json`)).put('a', 1);
      for (const url of [
        'file:~/state.json',
        `file://${folder}/state.json`,
        `FILE:${folder}//./state.json`,
      ]) {
        expect((await (await openStore(url)).get('a'))?.value, url).toBe(1);
      }
    } finally {
      process.env.HOME = before.home;
    }
  });
});
