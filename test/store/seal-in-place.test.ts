import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { generateKey } from '../../src/seal/index.ts';
import { copyEntries } from '../../src/store/copy.ts';
import {
  dropPlain,
  memoryStore,
  openStore,
  reseal,
  type Store,
  sealedStore,
  sealInPlace,
} from '../../src/store/index.ts';
import { service, uniqueName } from '../services.ts';
import { temporaryFolder } from './places.ts';

const keys = generateKey();
let folder: string;
let remove: () => void;
beforeEach(() => {
  ({ folder, remove } = temporaryFolder());
});
afterEach(() => remove());

describe.each(['sqlite', 'file'])('a plain %s: store', (scheme) => {
  const url = () => `${scheme}:${folder}/state`;
  async function begin(): Promise<void> {
    const plain = await openStore(url());
    await plain.put('a', { token: 'secret' });
    await plain.put('b', 'for a while', { ttl: 3600 });
    await plain.close();
  }

  it('A plain store is not treated as sealed, and the error names the command that seals it', async () => {
    await begin();
    await expect(openStore(url(), { keys })).rejects.toMatchObject({
      code: 'store-wrong-key',
      next: expect.stringContaining(`valise keys seal --store ${url()}`),
    });
  });

  it('A plain store opens with the keys, and only with them, once it has been sealed', async () => {
    await begin();
    expect(await sealInPlace(url(), { keys })).toBe(2);
    await expect(openStore(url())).rejects.toMatchObject({ code: 'store-wrong-key' });
    await expect(openStore(url(), { keys: generateKey() })).rejects.toMatchObject({
      code: 'store-wrong-key',
    });
    const sealed = await openStore(url(), { keys });
    expect((await sealed.get('a'))?.value).toEqual({ token: 'secret' });
    const { value, expiresAt } = (await sealed.get('b'))!;
    expect(value).toBe('for a while');
    expect(expiresAt).toBeGreaterThan(Date.now());
    await sealed.close();
  });
});

describe.each(['redis', 'postgres'] as const)('a plain store on %s', async (kind) => {
  const url = await service(kind);

  it.skipIf(!url)('sealInPlace() seals a plain store to its last page', { timeout: 60_000 }, async () => {
    const options = { prefix: `${uniqueName()}/`, timeout: '20s' } as const;
    const plain = await openStore(url as string, options);
    const names = Array.from({ length: 1050 }, (_, at) => `entry-${at}`);
    await Promise.all(
      names.map((name, at) => plain.put(name, { name }, { ttl: 600, unlisted: at % 2 === 0 })),
    );
    await plain.close();
    expect(await sealInPlace(url as string, { keys, ...options })).toBe(names.length);
    const sealed = await openStore(url as string, { keys, ...options });
    const entries = await Promise.all(names.map((name) => sealed.get(name)));
    expect(entries.map((entry) => entry?.value)).toEqual(names.map((name) => ({ name })));
    expect(entries.every((entry) => entry?.expiresAt !== undefined)).toBe(true);
    await sealed.close();
  });

  it.skipIf(!url)(
    'A plain store is copied, refused with keys, and resealed even if none of its entries are listed',
    async () => {
      const options = { prefix: `${uniqueName()}/`, timeout: '20s' } as const;
      const plain = await openStore(url as string, options);
      await plain.put('hidden', 'secret', { unlisted: true, ttl: 600 });
      const copy = memoryStore();
      expect(await copyEntries(plain, copy)).toEqual({ copied: 1, skipped: 0 });
      expect(await copy.get('hidden')).toMatchObject({ value: 'secret', expiresAt: expect.any(Number) });
      await expect(copyEntries(copy, plain)).rejects.toMatchObject({ code: 'store-failed' });
      await plain.close();
      await expect(openStore(url as string, { keys, ...options })).rejects.toMatchObject({
        code: 'store-wrong-key',
      });
      await sealInPlace(url as string, { keys, ...options });
      const next = generateKey();
      const rotating = await openStore(url as string, { keys: `${next},${keys}`, ...options });
      expect(await reseal(rotating)).toBe(1);
      await rotating.close();
      const sealed = await openStore(url as string, { keys: next, ...options });
      expect(await sealed.get('hidden')).toMatchObject({ value: 'secret' });
      await sealed.close();
    },
  );
});

describe('sealing in place', () => {
  let inner: Store;
  beforeEach(() => {
    inner = memoryStore();
  });

  /** A store that ends in the middle of the work, as a process does that is killed. */
  const dying = (writes: number): Store => ({
    get: (key) => inner.get(key),
    list: (prefix, options) => inner.list(prefix, options),
    delete: (key, options) => inner.delete(key, options),
    lease: (key, ttl) => inner.lease(key, ttl),
    close: () => inner.close(),
    put: (key, value, options) =>
      writes-- > 0 ? inner.put(key, value, options) : Promise.reject(new Error('killed')),
  });

  it.each([0, 1, 2, 3, 4])('Sealing continues after an interruption, after %s writes', async (writes) => {
    for (const key of ['a', 'b', 'c']) await inner.put(key, `v1.${key}`);
    await expect(sealInPlace(dying(writes), { keys })).rejects.toThrow('killed');
    await expect(sealedStore(inner, keys).get('a')).rejects.toMatchObject({
      code: 'store-wrong-key',
      next: expect.stringContaining('valise keys seal'),
    });
    await sealInPlace(inner, { keys });
    const sealed = sealedStore(inner, keys);
    for (const key of ['a', 'b', 'c']) expect((await sealed.get(key))?.value).toBe(`v1.${key}`);
  });

  it('Sealing that continues with another key seals everything with the first key, and treats no sealed entry as plain', async () => {
    const next = generateKey();
    for (const key of ['a', 'b', 'c']) await inner.put(key, key);
    await expect(sealInPlace(dying(3), { keys })).rejects.toThrow('killed');
    await expect(sealInPlace(dying(2), { keys: `${next},${keys}` })).rejects.toThrow('killed');
    for (const one of [keys, next])
      await expect(sealInPlace(inner, { keys: one })).rejects.toMatchObject({ code: 'store-wrong-key' });
    await sealInPlace(inner, { keys: `${next},${keys}` });
    const sealed = sealedStore(inner, next);
    for (const key of ['a', 'b', 'c']) expect((await sealed.get(key))?.value).toBe(key);
  });

  it('Sealing stops if another process has started at the same time with other keys', async () => {
    const others = generateKey();
    await inner.put('a', 'plain');
    let begun = false;
    const late: Store = {
      ...dying(Number.POSITIVE_INFINITY),
      async put(...args) {
        if (!begun) await sealInPlace(inner, { keys: others });
        begun = true;
        return inner.put(...args);
      },
    };
    await expect(sealInPlace(late, { keys })).rejects.toMatchObject({ code: 'store-wrong-key' });
    expect((await sealedStore(inner, others).get('a'))?.value).toBe('plain');
  });

  it('Sealing refuses plain entries in a store that is already sealed', async () => {
    await sealedStore(inner, keys).put('a', 1);
    await inner.put('planted', { admin: true });
    await expect(sealInPlace(inner, { keys })).rejects.toMatchObject({
      code: 'store-wrong-key',
      message: expect.stringContaining('"planted"'),
      next: expect.not.stringMatching(/valise keys seal(?! --drop-plain)/),
    });
    await expect(sealedStore(inner, keys).get('planted')).rejects.toMatchObject({ code: 'store-wrong-key' });
  });

  it('Sealing continues once plain entries have been dropped by name, and drops nothing else', async () => {
    await sealedStore(inner, keys).put('a', 1);
    await inner.put('planted', { admin: true });
    await inner.put('text', 'plain');
    expect(await dropPlain(sealedStore(inner, keys))).toEqual(['planted', 'text']);
    expect(await sealInPlace(inner, { keys })).toBe(1);
    expect((await sealedStore(inner, keys).get('a'))?.value).toBe(1);
  });

  it('Sealing drops nothing from a store that is not sealed yet', async () => {
    await inner.put('a', 1);
    await expect(dropPlain(sealedStore(inner, keys))).rejects.toMatchObject({ code: 'store-wrong-key' });
    expect((await inner.get('a'))?.value).toBe(1);
  });

  it('Resealing writes a sealed store with the first key, so that the others can be retired', async () => {
    const next = generateKey();
    await sealedStore(inner, keys).put('a', 1);
    expect(await sealInPlace(inner, { keys: `${next},${keys}` })).toBe(1);
    expect((await sealedStore(inner, next).get('a'))?.value).toBe(1);
  });

  it('Sealing leaves a store unchanged if a part of it is sealed separately', async () => {
    const url = `file:${folder}/state.json`;
    const part = await openStore(url, { keys, prefix: 'part/' });
    await part.put('a', 1);
    await part.close();
    await expect(sealInPlace(url, { keys })).rejects.toMatchObject({ code: 'store-wrong-key' });
    const again = await openStore(url, { keys, prefix: 'part/' });
    expect((await again.get('a'))?.value).toBe(1);
    await again.close();
  });

  it('A part of a store can be sealed separately', async () => {
    const url = `file:${folder}/state.json`;
    const part = await openStore(url, { prefix: 'part/' });
    await part.put('a', 1);
    await part.close();
    expect(await sealInPlace(url, { keys, prefix: 'part/' })).toBe(1);
    const again = await openStore(url, { keys, prefix: 'part/' });
    expect((await again.get('a'))?.value).toBe(1);
    await again.close();
  });
});
