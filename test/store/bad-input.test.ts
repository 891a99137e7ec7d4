import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { generateKey, parseKeys } from '../../src/seal/index.ts';
import { fileStore, openBus, openStore, type Store, ValiseError } from '../../src/store/index.ts';
import { fullPath } from '../../src/store/private-file.ts';
import { sqliteStore } from '../../src/store/sqlite/store.ts';
import { asUser, canMakeDisk, onSmallDisk, userFolder, withSmallFiles } from './elsewhere.ts';
import { temporaryFolder } from './places.ts';

let folder: string;
let remove: () => void;
beforeEach(() => ({ folder, remove } = temporaryFolder()));
afterEach(() => remove());

/** The error of a promise, which must be one of ours, with a next step. */
async function errorOf(work: Promise<unknown> | (() => unknown)): Promise<ValiseError> {
  try {
    await (typeof work === 'function' ? work() : work);
  } catch (error) {
    expect(error).toBeInstanceOf(ValiseError);
    expect((error as ValiseError).next).toMatch(/\w/);
    expect((error as ValiseError).message).toContain((error as ValiseError).next);
    return error as ValiseError;
  }
  throw new Error('it did not fail');
}

/** The error of a write to a store that others can get at; a look may take a second. */
async function refusedWrite(store: Store): Promise<ValiseError> {
  for (;;) {
    const error = await store.put('a', 1).then(
      () => undefined,
      (thrown: unknown) => thrown as ValiseError,
    );
    if (error) return error;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const kinds = [
  { scheme: 'file', name: 'state.json' },
  { scheme: 'sqlite', name: 'state.db' },
] as const;

describe('invalid store URLs', () => {
  it.each([
    'mongodb://h/db',
    'sqlite',
    '',
    '/tmp/state.json',
    'C:\\state.json',
    'file:',
    'sqlite:',
    'file://host/x',
  ])('The URL %j is refused with a hint at valid ones', async (url) => {
    const error = await errorOf(openStore(url));
    expect(error.code).toBe('store-invalid');
    expect(error.next).toMatch(/file:|sqlite:/);
  });

  it('The error for an unknown URL does not contain its password', async () => {
    const error = await errorOf(openStore('mysql://me:hunter2@host/db'));
    expect(`${error.message}${error.stack}`).not.toContain('hunter2');
  });

  it.each(kinds)(
    'A URL of $scheme that asks for memory is refused and creates no file',
    async ({ scheme }) => {
      expect(await errorOf(openStore(`${scheme}::memory:`))).toMatchObject({
        code: 'store-invalid',
        next: expect.stringContaining('memory:'),
      });
      expect(existsSync(':memory:')).toBe(false);
    },
  );

  it('A memory: URL with a name is refused, because every memory store is separate', async () => {
    for (const url of ['memory:shop', 'memory://shop'])
      expect(await errorOf(openStore(url))).toMatchObject({
        code: 'store-invalid',
        next: expect.stringContaining('memoryStore()'),
      });
    for (const url of ['memory:', 'memory://']) await (await openStore(url)).close();
  });

  it.each(kinds)(
    'A URL of $scheme that names the home folder is refused and creates no file',
    async ({ scheme }) => {
      expect(await errorOf(openStore(`${scheme}:~`))).toMatchObject({
        code: 'store-invalid',
        message: expect.stringContaining('home folder'),
        next: expect.stringContaining('~/'),
      });
      expect(existsSync('~')).toBe(false);
    },
  );

  it.each(kinds)(
    'A URL of $scheme in the home of another user is refused and creates no folder',
    async ({ scheme }) => {
      expect(await errorOf(openStore(`${scheme}:~bob/state`))).toMatchObject({
        code: 'store-invalid',
        message: expect.stringContaining('"~bob"'),
        next: expect.stringMatching(/full path.*\.\/~bob\/state/),
      });
      expect(existsSync('~bob')).toBe(false);
      await (await openStore(`${scheme}:${folder}/~bob`)).close();
    },
  );

  it('An unknown URL is refused for a bus too', async () => {
    expect((await errorOf(openBus('sqlite:x'))).code).toBe('store-invalid');
    expect((await errorOf(openBus(7 as unknown as string))).code).toBe('store-invalid');
  });
});

describe.each(kinds)('a damaged $scheme store', ({ scheme, name }) => {
  /** Begins as a store does. */
  let garbage: string;
  beforeEach(async () => {
    garbage = '{"valise":1,"entries":{"a": \u0000 this is not the end';
    if (scheme === 'file') return;
    const file = `${folder}/good.db`;
    await (await openStore(`sqlite:${file}`)).close();
    garbage = `${readFileSync(file, 'latin1').slice(0, 100)}${'\u0007'.repeat(4000)}`;
    rmSync(file);
  });

  it('A damaged store is renamed, and the error says to which name', async () => {
    const file = `${folder}/${name}`;
    writeFileSync(file, garbage, { mode: 0o600, encoding: 'latin1' });
    const error = await errorOf(openStore(`${scheme}:${file}`));
    expect(error.code).toBe('store-corrupt');
    const aside = readdirSync(folder).find((entry) => entry.includes('.corrupt-'));
    expect(error.message).toContain(`${folder}/${aside}`);
    expect(readFileSync(`${folder}/${aside}`, 'latin1')).toBe(garbage);
  });

  it('A new store can replace a damaged one, and never overwrites a renamed one', async () => {
    const file = `${folder}/${name}`;
    for (const text of [garbage, `${garbage} again`]) {
      writeFileSync(file, text, { mode: 0o600, encoding: 'latin1' });
      await errorOf(openStore(`${scheme}:${file}`));
    }
    const store = await openStore(`${scheme}:${file}`);
    await store.put('new', 1);
    await store.close();
    const kept = readdirSync(folder).filter((entry) => /\.corrupt-[\dTZ]+(-\d+)?$/.test(entry));
    expect(kept.map((entry) => readFileSync(`${folder}/${entry}`, 'latin1')).sort()).toEqual([
      garbage,
      `${garbage} again`,
    ]);
  });

  it('Damage to an open store is noticed, and every call fails until the store is opened again', async () => {
    const file = `${folder}/${name}`;
    const store = await openStore(`${scheme}:${file}`);
    await store.put('a', 'x'.repeat(100_000));
    if (scheme === 'sqlite') {
      // Into the file itself and not only beside it, then over its pages.
      await store.close();
      const size = statSync(file).size;
      const reopened = await openStore(`${scheme}:${file}`);
      writeFileSync(
        file,
        Buffer.concat([readFileSync(file).subarray(0, 4096), Buffer.alloc(size - 4096, 7)]),
      );
      expect((await errorOf(reopened.get('a'))).code).toBe('store-corrupt');
      expect((await errorOf(reopened.put('b', 1))).code).toBe('store-corrupt');
      await reopened.close();
    } else {
      writeFileSync(file, garbage);
      expect((await errorOf(store.get('a'))).code).toBe('store-corrupt');
      expect((await errorOf(store.put('b', 1))).code).toBe('store-corrupt');
      await store.close();
    }
    expect(readdirSync(folder).some((entry) => entry.includes('.corrupt-'))).toBe(true);
    expect(await (await openStore(`${scheme}:${file}`)).get('a')).toBeUndefined();
  });
});

describe('a file that is not a store', () => {
  it('A JSON file of another program is refused and left unchanged', async () => {
    const text = '{"name":"my-package","version":"1.0.0"}';
    writeFileSync(`${folder}/package.json`, text, { mode: 0o600 });
    expect((await errorOf(openStore(`file:${folder}/package.json`))).code).toBe('store-corrupt');
    expect(readFileSync(`${folder}/package.json`, 'utf8')).toBe(text);
    expect(readdirSync(folder)).toEqual(['package.json']);
  });

  it.each(
    kinds.flatMap(({ scheme }) => [
      { scheme, what: 'a key', text: '-----BEGIN PRIVATE KEY-----\nMC4CAQAw\n' },
      { scheme, what: 'almost JSON', text: '{"name": "mine", // a remark\n}' },
      { scheme, what: 'a number of bytes', text: '\u0000\u007f\u0000\u0007'.repeat(2000) },
      { scheme, what: 'half a line', text: '{"val' },
      ...(scheme === 'sqlite'
        ? [{ scheme, what: 'a damaged database', text: `SQLite format 3\0${'\u0007'.repeat(4080)}` }]
        : []),
    ]),
  )('A file of another program is refused as $scheme and left unchanged: $what', async ({ scheme, text }) => {
    const file = `${folder}/theirs`;
    writeFileSync(file, text, { mode: 0o600 });
    expect((await errorOf(openStore(`${scheme}:${file}`))).code).toBe('store-corrupt');
    expect(readFileSync(file, 'utf8')).toBe(text);
    expect(readdirSync(folder)).toEqual(['theirs']);
  });

  it('A store of a later version is refused and left unchanged', async () => {
    writeFileSync(`${folder}/state.json`, '{"valise":2}', { mode: 0o600 });
    const error = await errorOf(openStore(`file:${folder}/state.json`));
    expect(error.code).toBe('store-corrupt');
    expect(readFileSync(`${folder}/state.json`, 'utf8')).toBe('{"valise":2}');
  });

  it('A database of another program is refused and left unchanged', async () => {
    const { openDatabase } = await import('../../src/store/sqlite/library.ts');
    const file = `${folder}/other.db`;
    const other = openDatabase(file);
    other.exec('CREATE TABLE theirs (id); INSERT INTO theirs VALUES (1)');
    other.close();
    chmodSync(file, 0o600);
    const before = readFileSync(file);
    expect((await errorOf(openStore(`sqlite:${file}`))).code).toBe('store-corrupt');
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  it('An empty file becomes a store', async () => {
    for (const { scheme, name } of kinds) {
      writeFileSync(`${folder}/${name}`, '', { mode: 0o600 });
      const store = await openStore(`${scheme}:${folder}/${name}`);
      await store.put('a', 1);
      await store.close();
    }
  });
});

describe.each(kinds)('a $scheme store that others can read', ({ scheme, name }) => {
  it('A store that others can read is refused, with the command that fixes it', async () => {
    const file = `${folder}/it's ${name}`;
    await (await openStore(`${scheme}:${file}`)).close();
    writeFileSync(file, '', { mode: 0o600, flag: 'a' });
    chmodSync(file, 0o640);
    const error = await errorOf(openStore(`${scheme}:${file}`));
    expect(error.code).toBe('store-denied');
    expect(error.next).toBe(`Run: chmod 600 '${folder}/it'\\''s ${name}'`);
    chmodSync(file, 0o600);
    await (await openStore(`${scheme}:${file}`)).close();
  });

  it('A store in a folder that everybody can write to is refused', async () => {
    chmodSync(folder, 0o777);
    const error = await errorOf(openStore(`${scheme}:${folder}/${name}`));
    expect(error).toMatchObject({ code: 'store-denied', next: `Run: chmod o-w ${folder}` });
    chmodSync(folder, 0o1777);
    await (await openStore(`${scheme}:${folder}/${name}`)).close();
  });

  it('An open store fails as soon as others can read it, until that is fixed', async () => {
    const file = `${folder}/${name}`;
    const store = await openStore(`${scheme}:${file}`);
    await store.put('a', 1);
    chmodSync(file, 0o644);
    const error = await refusedWrite(store);
    expect(error).toMatchObject({ code: 'store-denied', next: `Run: chmod 600 ${file}` });
    chmodSync(file, 0o600);
    await store.put('a', 2);
    expect(await store.get('a')).toMatchObject({ value: 2 });
    await store.close();
  });

  it.runIf(process.getuid?.() === 0)(
    'A store that is the file of another user in a shared folder is refused',
    async () => {
      chmodSync(folder, 0o1777);
      const file = `${folder}/${name}`;
      await (await openStore(`${scheme}:${file}`)).put('a', 1);
      writeFileSync(file, '', { mode: 0o600, flag: 'a' });
      chownSync(file, 1234, 1234);
      const error = await errorOf(openStore(`${scheme}:${file}`));
      expect(error).toMatchObject({
        code: 'store-denied',
        message: expect.stringContaining(`${file} belongs to another user (uid 1234).`),
        next: expect.stringContaining(`run: chown 0 ${file}`),
      });
      chownSync(file, 0, 0);
      await (await openStore(`${scheme}:${file}`)).close();
    },
  );

  it.runIf(process.getuid?.() === 0)(
    'A store fails if another user takes it over while it is open',
    async () => {
      chmodSync(folder, 0o1777);
      const file = `${folder}/${name}`;
      const store = await openStore(`${scheme}:${file}`);
      await store.put('a', 1);
      chownSync(file, 1234, 1234);
      expect((await refusedWrite(store)).code).toBe('store-denied');
      chownSync(file, 0, 0);
      await store.close();
    },
  );

  it.runIf(process.getuid?.() === 0)('A store in the folder of another user is refused', async () => {
    chmodSync(folder, 0o777);
    chownSync(folder, 1234, 1234);
    chmodSync(folder, 0o1777);
    const [opened] = asUser([['open', `${scheme}:${folder}/${name}`]]);
    expect(opened).toMatchObject({
      code: 'store-denied',
      message: expect.stringContaining(`${folder} belongs to another user (uid 1234).`),
    });
  });

  it('A new store is readable only by its owner, in a folder only for its owner', async () => {
    const before = process.umask(0);
    try {
      const store = await openStore(`${scheme}:${folder}/new/deep/${name}`);
      await store.put('a', 1);
      for (const entry of readdirSync(`${folder}/new/deep`)) {
        expect(statSync(`${folder}/new/deep/${entry}`).mode & 0o777, entry).toBe(0o600);
      }
      expect(statSync(`${folder}/new`).mode & 0o777).toBe(0o700);
      expect(statSync(`${folder}/new/deep`).mode & 0o777).toBe(0o700);
      await store.close();
    } finally {
      process.umask(before);
    }
  });
});

describe.each(kinds)('unreadable and read-only places of a $scheme store', ({ scheme, name }) => {
  it('A folder in place of the file fails with store-unreadable', async () => {
    mkdirSync(`${folder}/${name}`, { mode: 0o700 });
    expect((await errorOf(openStore(`${scheme}:${folder}/${name}`))).code).toBe('store-corrupt');
  });

  it('A file in place of the folder fails with a typed error', async () => {
    writeFileSync(`${folder}/file`, 'mine');
    expect((await errorOf(openStore(`${scheme}:${folder}/file/${name}`))).code).toMatch(/^store-/);
    expect(readFileSync(`${folder}/file`, 'utf8')).toBe('mine');
  });

  it('A file that this user may not read fails with store-unreadable, and stays', async () => {
    const { folder, own, remove } = userFolder();
    const store = await openStore(`${scheme}:${folder}/${name}`);
    await store.put('a', 1);
    await store.close();
    own(`${folder}/${name}`, 0o000);
    const [opened] = asUser([['open', `${scheme}:${folder}/${name}`]]);
    expect(opened?.code).toBe('store-corrupt');
    chmodSync(`${folder}/${name}`, 0o600);
    const again = await openStore(`${scheme}:${folder}/${name}`);
    expect((await again.get('a'))?.value).toBe(1);
    await again.close();
    remove();
  });

  it('A read-only folder fails with store-read-only', () => {
    const { folder, own, remove } = userFolder();
    own(folder, 0o500);
    const [opened] = asUser([['open', `${scheme}:${folder}/${name}`]]);
    expect(opened).toMatchObject({
      code: 'store-read-only',
      message: expect.stringContaining('another folder'),
    });
    remove();
  });

  it('A folder that becomes read-only fails the write and keeps the previous entries', async () => {
    const { folder, own, remove } = userFolder();
    const url = `${scheme}:${folder}/${name}`;
    asUser([
      ['open', url],
      ['put', 'a', 10],
    ]);
    own(folder, 0o500);
    const [opened] = asUser([['open', url]]);
    expect(opened?.code).toBe('store-read-only');
    own(folder, 0o700);
    const [, , put, still] = asUser([
      ['open', url],
      ['chmod', folder, 0o500],
      ['put', 'b', 20],
      ['get', 'a'],
    ]);
    // SQLite has its files open, and goes on writing into them; the file store replaces its file with each write.
    expect(put).toMatchObject(scheme === 'file' ? { code: 'store-read-only' } : { result: 'string' });
    expect(still?.result).toBe(10);
    own(folder, 0o700);
    expect(
      asUser([
        ['open', url],
        ['get', 'a'],
      ])[1],
    ).toEqual({ did: 'get', result: 10 });
    remove();
  });
});

describe('a full disk', () => {
  it('On a full disk, a write to a file store fails with store-full, the entries stay, and later writes work', () => {
    const url = `file:${folder}/state.json`;
    const [, first, full, still, small, also] = withSmallFiles(64, [
      ['open', url],
      ['put', 'a', 10_000],
      ['put', 'b', 90_000],
      ['get', 'a'],
      ['put', 'c', 100],
      ['get', 'c'],
    ]);
    expect(first?.result).toBe('string');
    expect(full).toMatchObject({ code: 'store-full', message: expect.stringContaining('Free some space') });
    expect([still, small, also].map((outcome) => outcome?.result)).toEqual([10_000, 'string', 100]);
    expect(readdirSync(folder)).toEqual(['state.json']);
  });

  const disk = canMakeDisk();
  it.runIf(disk).each(kinds)(
    'On a full disk, a write to a $scheme store fails with store-full, the entries stay, and the store opens again',
    ({ scheme, name }) => {
      const url = `${scheme}:${folder}/${name}`;
      const [, first, full, still, , , again] = onSmallDisk(folder, '400k', [
        ['open', url],
        ['put', 'a', 10_000],
        ['put', 'b', 500_000],
        ['get', 'a'],
        ['close'],
        ['open', url],
        ['get', 'a'],
      ]);
      expect(first?.result).toBe('string');
      expect(full?.code).toBe('store-full');
      expect([still?.result, again?.result]).toEqual([10_000, 10_000]);
    },
  );

  it.runIf(disk).each([2000, 100_000])(
    'On a full disk, all entries of %i bytes can be deleted from SQLite, and new ones can replace them',
    { timeout: 60_000 },
    (size) => {
      const url = `sqlite:${folder}/state.db`;
      const [, , full, rest, refused, emptied, again, , , kept] = onSmallDisk(folder, '24m', [
        ['open', url],
        ['write-until', `${folder}/state.db-reserve`],
        ['fill', size],
        ['exhaust', `${folder}/other`],
        ['put', 'more', 2_000_000],
        ['empty'],
        ['put', 'again', size],
        ['close'],
        ['open', url],
        ['get', 'again'],
      ]);
      expect(full?.result).toBe('store-full');
      expect(rest?.result).toBe('ENOSPC');
      expect(refused?.code).toBe('store-full');
      expect(emptied).toEqual({ did: 'empty', result: true });
      expect(again?.result).toBe('string');
      expect(kept?.result).toBe(size);
    },
  );

  it.runIf(disk).each(kinds)(
    'On a full disk, creating a $scheme store fails with store-full',
    ({ scheme, name }) => {
      const outcome = onSmallDisk(folder, '4k', [
        ['open', `${scheme}:${folder}/${name}`],
        ['put', 'a', 5_000],
      ]);
      expect(outcome.find(({ code }) => code)?.code).toBe('store-full');
    },
  );
});

describe.each(kinds)('keys for a $scheme store', ({ scheme, name }) => {
  it('Wrong keys open nothing and change nothing', async () => {
    const url = `${scheme}:${folder}/${name}`;
    const keys = generateKey();
    const store = await openStore(url, { keys });
    await store.put('a', 'secret');
    await store.close();
    const error = await errorOf(openStore(url, { keys: generateKey() }));
    expect(error.code).toBe('store-wrong-key');
    expect(error.message).toContain(parseKeys(keys).kids[0]);
    const again = await openStore(url, { keys });
    expect((await again.get('a'))?.value).toBe('secret');
    await again.close();
  });

  it('Short, weak or malformed keys are refused before anything is created', async () => {
    for (const [keys, code] of [
      ['c2hvcnQ', 'invalid-key'],
      ['A'.repeat(43), 'invalid-key'],
      ['not base64!', 'invalid-key'],
      ['', 'no-keys'],
    ] as const) {
      expect((await errorOf(openStore(`${scheme}:${folder}/${name}`, { keys }))).code).toBe(code);
      const direct = scheme === 'file' ? fileStore : sqliteStore;
      expect((await errorOf(() => direct(`${folder}/${name}`, { keys }))).code).toBe(code);
    }
    expect(readdirSync(folder)).toEqual([]);
  });

  it('A sealed store asks for missing keys, by URL and by code', async () => {
    const file = `${folder}/${name}`;
    const store = await openStore(`${scheme}:${file}`, { keys: generateKey() });
    await store.put('a', 1);
    await store.close();
    expect((await errorOf(openStore(`${scheme}:${file}`))).code).toBe('store-wrong-key');
    expect((await errorOf(() => (scheme === 'file' ? fileStore(file) : sqliteStore(file)))).code).toBe(
      'store-wrong-key',
    );
  });

  it('Keys for a store that was written without keys are refused, and nothing is lost', async () => {
    const url = `${scheme}:${folder}/${name}`;
    const store = await openStore(url);
    await store.put('a', 1);
    await store.close();
    expect((await errorOf(openStore(url, { keys: generateKey() }))).code).toBe('store-wrong-key');
    const again = await openStore(url);
    expect((await again.get('a'))?.value).toBe(1);
    await again.close();
  });
});

describe('a link', () => {
  it.each(kinds)('A link to a $scheme store is followed and stays a link', async ({ scheme, name }) => {
    mkdirSync(`${folder}/real`, { mode: 0o700 });
    writeFileSync(`${folder}/real/${name}`, '', { mode: 0o600 });
    symlinkSync(`real/${name}`, `${folder}/link`);
    const store = await openStore(`${scheme}:${folder}/link`);
    await store.put('a', 1);
    await store.close();
    expect(readdirSync(folder).sort()).toEqual(['link', 'real']);
    const again = await openStore(`${scheme}:${folder}/real/${name}`);
    expect((await again.get('a'))?.value).toBe(1);
    await again.close();
  });
});

describe('the home of the user', () => {
  const { HOME } = process.env;
  afterEach(() => void Object.assign(process.env, { HOME }));

  it('The home folder is never the current folder, even if HOME is empty', () => {
    process.env.HOME = '';
    expect(fullPath('~/.valise/state.db')).toBe(join(userInfo().homedir, '.valise/state.db'));
  });
});

describe.skipIf(process.platform === 'win32')('the files that SQLite keeps next to a database', () => {
  it.each(['-wal', '-shm', '-journal'])(
    'A SQLite side file that others can read is refused: %s',
    async (suffix) => {
      const file = `${folder}/state.db`;
      writeFileSync(`${file}${suffix}`, '', { mode: 0o600 });
      chmodSync(`${file}${suffix}`, 0o644);
      const error = await errorOf(openStore(`sqlite:${file}`));
      expect(error).toMatchObject({ code: 'store-denied', next: `Run: chmod 600 ${file}${suffix}` });
    },
  );
});
