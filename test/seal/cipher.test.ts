import * as crypto from 'node:crypto';
import { createSealer, generateKey, parseKeys } from 'mcp-valise/seal';
import { describe, expect, it, vi } from 'vitest';
import { createSealingKeys, OpeningKeys } from '../../src/seal/cipher.ts';
import { keysOf } from '../../src/seal/keyring.ts';
import { bodyOf, refusal, withBody } from './helpers.ts';

// The real functions, counted.
vi.mock('node:crypto', async (original) => {
  const real = await original<typeof crypto>();
  return { ...real, hkdfSync: vi.fn(real.hkdfSync), randomBytes: vi.fn(real.randomBytes) };
});

const derivations = vi.mocked(crypto.hkdfSync);
const draws = vi.mocked(crypto.randomBytes);
const keys = parseKeys(generateKey());
const options = { purpose: 'p' };
const key = crypto.createSecretKey(crypto.randomBytes(32));

describe('sealing', () => {
  it('derives one key and draws one salt, then neither per token', () => {
    const sealer = createSealer({ keys });
    derivations.mockClear();
    draws.mockClear();
    const tokens = Array.from({ length: 1000 }, () => sealer.seal('x', options));
    for (const token of tokens) sealer.open(token, options);
    expect(derivations).toHaveBeenCalledTimes(1);
    expect(draws).toHaveBeenCalledTimes(1);
    expect(new Set(tokens.map((token) => bodyOf(token).subarray(0, 16).toString('hex'))).size).toBe(1);
    expect(tokens.map((token) => bodyOf(token).readUInt32BE(24))).toEqual(tokens.map((_, index) => index));
  });

  it('never gives two tokens one nonce, also where sealing a value seals another', () => {
    const sealer = createSealer({ keys });
    const inner: string[] = [];
    class Sneaky {
      toJSON() {
        inner.push(sealer.seal('inner', options));
        return 'outer';
      }
    }
    const value = new Sneaky() as never;
    const outer = Array.from({ length: 100 }, () => sealer.seal(value, { ...options, bind: value }));
    const heads = [...outer, ...inner].map((token) => bodyOf(token).subarray(0, 28).toString('hex'));
    expect(new Set(heads).size).toBe(heads.length);
    for (const token of inner) expect(sealer.open(token, options)).toBe('inner');
    for (const token of outer) expect(sealer.open(token, { ...options, bind: 'outer' })).toBe('outer');
  });

  it('gives every sealer a salt of its own', () => {
    const salts = Array.from({ length: 20 }, () =>
      bodyOf(createSealer({ keys }).seal(1, options)).subarray(0, 16).toString('hex'),
    );
    expect(new Set(salts).size).toBe(20);
  });

  it('continues with a new salt after 2^24 tokens', () => {
    const drawn = vi.fn();
    const next = createSealingKeys(keysOf(keys)[0], drawn);
    const { salt, key: first } = next();
    for (let count = 1; count < 2 ** 24; count++) next();
    expect(next().salt.equals(salt)).toBe(false);
    expect(next().key).not.toBe(first);
    expect(next().nonce.readUInt32BE(8)).toBe(2);
    expect(drawn).toHaveBeenCalledTimes(2);
  });
});

describe('opening', () => {
  it('derives the key of another process once', () => {
    const [one, two] = [createSealer({ keys }), createSealer({ keys })];
    const tokens = Array.from({ length: 50 }, () => one.seal('x', options));
    derivations.mockClear();
    for (const token of tokens) two.open(token, options);
    expect(derivations).toHaveBeenCalledTimes(1);
  });

  it('keeps no key for made-up salts, so they push out no good one', () => {
    const opener = createSealer({ keys });
    const tokens = Array.from({ length: 10 }, () => createSealer({ keys }).seal('x', options));
    for (const token of tokens) opener.open(token, options);
    for (let attempt = 0; attempt < 3000; attempt++) {
      const body = bodyOf(tokens[0] ?? '');
      crypto.randomFillSync(body, 0, 16);
      expect(refusal(() => opener.open(withBody(tokens[0] ?? '', body), options))).toBe('tampered');
    }
    derivations.mockClear();
    for (const token of tokens) opener.open(token, options);
    expect(derivations).not.toHaveBeenCalled();
  });

  it('keeps a bounded number of keys, those in use the longest', () => {
    const kept = new OpeningKeys();
    kept.keep('busy', key);
    for (let index = 0; index < 5000; index++) {
      kept.keep(`salt-${index}`, key);
      expect(kept.find('busy')).toBe(key);
    }
    const found = Array.from({ length: 5000 }, (_, index) => kept.find(`salt-${index}`)).filter(Boolean);
    expect(found).toHaveLength(1023);
    expect(kept.find('salt-4999')).toBe(key);
  });
});
