import { generateKey, memoryLedger, parseKeys, type SealerOptions } from 'mcp-valise/seal';
import { memoryStore, type Store } from 'mcp-valise/store';
import { beforeEach, describe, expect, it } from 'vitest';
import { clock, laterRefusal, refusal, sealerWith } from './helpers.ts';

const keys = parseKeys(generateKey());
const options = { purpose: 'round', subject: 'alice', bind: 'session-1' };
const large = { text: 'secret words '.repeat(2000) };
let store: Store;
const spilling = (more: SealerOptions = {}) => sealerWith({ keys, spill: { store, above: 1000 }, ...more });

beforeEach(() => {
  store = memoryStore();
});

describe('a value over the budget', () => {
  it('stays in the store, and a short token names it', async () => {
    const token = await spilling().sealLarge(large, options);
    expect(token.length).toBeLessThan(400);
    expect(await spilling().openLarge(token, options)).toEqual(large);
    expect(spilling().describe(token)).toMatchObject({ isReference: true, purpose: 'round' });
  });

  it('is sealed in the store as well', async () => {
    await spilling().sealLarge(large, options);
    const { keys: names } = await store.list('');
    expect(names).toEqual([expect.stringMatching(/^seal\/kept\/[\w-]{43}$/)]);
    const entry = await store.get(names[0] ?? '');
    expect(entry?.value).toMatch(/^v1\./);
    expect(entry?.expiresAt).toBeGreaterThan(Date.now() + 600_000);
  });

  it('is bound like any other', async () => {
    const sealer = spilling();
    const token = await sealer.sealLarge(large, options);
    expect(await laterRefusal(sealer.openLarge(token, { ...options, purpose: 'jar' }))).toBe('wrong-purpose');
    expect(await laterRefusal(sealer.openLarge(token, { ...options, subject: 'bob' }))).toBe('wrong-subject');
    expect(await laterRefusal(sealer.openLarge(token, { ...options, bind: 'session-2' }))).toBe(
      'wrong-binding',
    );
    expect(await laterRefusal(spilling({ audience: 'shop' }).openLarge(token, options))).toBe(
      'wrong-audience',
    );
  });

  it('ends with its token', async () => {
    const time = clock(Date.now());
    const sealer = spilling({ now: time.now, ttl: 60 });
    const token = await sealer.sealLarge(large, options);
    time.pass(121);
    expect(await laterRefusal(sealer.openLarge(token, options))).toBe('expired');
  });

  it('is expired where the store has lost it, tampered where the store has another one', async () => {
    const sealer = spilling();
    const [one, two] = [await sealer.sealLarge(large, options), await sealer.sealLarge([large], options)];
    const [first = '', second = ''] = (await store.list('')).keys;
    const kept = await store.get(first);
    await store.put(second, kept?.value ?? null);
    const outcomes = await Promise.all(
      [one, two].map((token) =>
        sealer.openLarge(token, options).then(
          () => 'open',
          (error) => error.reason,
        ),
      ),
    );
    expect(outcomes.sort()).toEqual(['open', 'tampered']);
    await store.put(first, { not: 'text' });
    await store.delete(second);
    const after = await Promise.all(
      [one, two].map((token) => laterRefusal(sealer.openLarge(token, options))),
    );
    expect(after.sort()).toEqual(['expired', 'tampered']);
  });

  it('cannot be opened past its token: neither the name nor what is kept is a value by itself', async () => {
    const sealer = spilling();
    const token = await sealer.sealLarge(large, options);
    const [name = ''] = (await store.list('')).keys;
    const kept = String((await store.get(name))?.value);
    expect(refusal(() => sealer.open(token, options))).toBe('wrong-purpose');
    expect(refusal(() => sealer.open(kept, options))).toBe('wrong-purpose');
    expect(await laterRefusal(sealer.openLarge(kept, options))).toBe('wrong-purpose');
  });

  it('needs its store to open: no-store says so', async () => {
    const token = await spilling().sealLarge(large, options);
    await expect(sealerWith({ keys }).openLarge(token, options)).rejects.toMatchObject({ code: 'no-store' });
  });

  it('opens once where asked, and a store that fails does not use it up', async () => {
    const ledger = memoryLedger();
    const sealer = spilling({ ledger });
    const token = await sealer.sealLarge(large, options);
    const broken = {
      get: () => Promise.reject(new Error('away')),
      put: () => Promise.reject(new Error('away')),
    };
    const away = sealerWith({ keys, ledger, spill: { store: broken, above: 1000 } });
    await expect(away.openLarge(token, { ...options, once: true })).rejects.toThrow('away');
    await expect(away.sealLarge(large, options)).rejects.toThrow('away');
    expect(await sealer.openLarge(token, { ...options, once: true })).toEqual(large);
    expect(await laterRefusal(sealer.openLarge(token, { ...options, once: true }))).toBe('replayed');
    expect(await sealer.openLarge(token, options)).toEqual(large);
  });
});

describe('a value within the budget', () => {
  it('travels whole, and the store hears nothing of it', async () => {
    const sealer = spilling();
    const token = await sealer.sealLarge({ small: true }, options);
    expect(sealer.open(token, options)).toEqual({ small: true });
    expect(await sealer.openLarge(token, options)).toEqual({ small: true });
    expect((await store.list('')).keys).toEqual([]);
  });

  it('is any value, if there is no store to spill to', async () => {
    const sealer = sealerWith({ keys });
    expect(await sealer.openLarge(await sealer.sealLarge(large, options), options)).toEqual(large);
  });
});

describe('compression', () => {
  it('is off by default', () => {
    expect(sealerWith().seal(large, options).length).toBeGreaterThan(26_000);
  });

  it('makes long values shorter, leaves short ones alone, and keeps what would grow', () => {
    const sealer = sealerWith({ keys, compressAbove: 1000 });
    const long = sealer.seal(large, options);
    expect(long.length).toBeLessThan(1000);
    expect(sealer.open(long, options)).toEqual(large);
    expect(sealer.describe(long).compressed).toBe(true);
    expect(sealer.describe(sealer.seal('la'.repeat(300), options)).compressed).toBe(false);
    const noise = generateKey() + Array.from({ length: 40 }, generateKey).join('');
    expect(sealerWith({ keys }).open(sealer.seal(noise, options), options)).toBe(noise);
  });

  it('never makes a token whose text is too long to open again', () => {
    const sealer = sealerWith({ keys, compressAbove: 100, maxBytes: 10_000 });
    expect(() => sealer.seal('x'.repeat(10_000), options)).toThrow(
      expect.objectContaining({ code: 'too-large' }),
    );
    expect(() => sealer.seal('é'.repeat(6_000), options)).toThrow(
      expect.objectContaining({ code: 'too-large' }),
    );
    expect(sealer.open(sealer.seal('é'.repeat(4_900), options), options)).toHaveLength(4_900);
  });
});
