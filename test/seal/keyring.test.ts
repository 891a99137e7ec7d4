import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { createSealer, generateKey, loadKeys, parseKeys, ValiseError } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { clock, refusal, sealerWith } from './helpers.ts';

const text = (bytes: Iterable<number>) => Buffer.from([...bytes]).toString('base64url');
const codeOf = (run: () => unknown) => {
  try {
    run();
  } catch (error) {
    return (error as ValiseError).code;
  }
  return undefined;
};

describe('keys', () => {
  it('are made with 32 random bytes', () => {
    const made = Array.from({ length: 100 }, generateKey);
    expect(new Set(made).size).toBe(100);
    for (const key of made) {
      expect(Buffer.from(key, 'base64url')).toHaveLength(32);
      expect(parseKeys(key).kids).toHaveLength(1);
    }
  });

  it('are read in order, spaces and empty places aside, each once', () => {
    const [a, b] = [generateKey(), generateKey()];
    const ids = [...parseKeys(a).kids, ...parseKeys(b).kids];
    expect(parseKeys(` ${a} ,\n${b},,${a}`).kids).toEqual(ids);
    expect(parseKeys(a).ephemeral).toBe(false);
  });

  it.each([
    ['short', text(Buffer.from(generateKey(), 'base64url').subarray(0, 31))],
    ['long', text(Buffer.concat([Buffer.from(generateKey(), 'base64url'), Buffer.of(7)]))],
    ['zero', text(new Uint8Array(32))],
    ['repeated', text(new Uint8Array(32).fill(0xa7))],
    ['a few bytes', text(Array.from({ length: 32 }, (_, index) => (index * index) % 11))],
    [
      'doubled',
      text([...'0123456789abcdef0123456789abcdef'].map((_, index) => ((index % 16) * 73 + 19) & 255)),
    ],
    ['counting', text(Array.from({ length: 32 }, (_, index) => index))],
    ['counting down by seven', text(Array.from({ length: 32 }, (_, index) => (250 - 7 * index) & 255))],
    ['readable', text(Buffer.from('correct-horse-battery-staple-Q7!'))],
    ['a phrase of small words', 'correct-horse-battery-staple-and-somethingA'],
    ['a phrase with capitals and a year', 'Correct-Horse-Battery-Staple-Winter-2024-oE'],
    ['a phrase without marks', 'thisismyverysecretpassphraseforthevaliseapg'],
    ['a phrase in capitals of words', 'ThisIsMyVerySecretPassphraseForTheValiseApg'],
    ['a phrase in capitals', 'CHANGE-ME-CHANGE-ME-CHANGE-ME-CHANGE-ME-CHA'],
    ['a phrase in another language', 'die-katze-sitzt-auf-dem-warmen-ofen-schlafg'],
    ['a row of digits', '1415926535897932384626433832795028841971694'],
    ['the example of the documentation', 'Qm9XrVt0y7ZL2bJ1uG8cKfS5wHdNpE4iTaOxR6MvYkU'],
  ])('are refused with weak-key where they are %s, unless weak keys are allowed', (_, key) => {
    expect(codeOf(() => parseKeys(key))).toBe('invalid-key');
    expect(codeOf(() => parseKeys(`${generateKey()},${key}`))).toBe('invalid-key');
    expect(codeOf(() => createSealer({ keys: key }))).toBe('invalid-key');
    expect(codeOf(() => loadKeys({ env: { VALISE_KEYS: key } }))).toBe('invalid-key');
    const sealer = createSealer({ keys: key, allowWeakKeys: true });
    expect(sealer.open(sealer.seal(1, { purpose: 'p' }), { purpose: 'p' })).toBe(1);
    expect(parseKeys(key, { allowWeakKeys: true }).kids).toEqual([sealer.kid]);
  });

  it('are never refused where they are random', () => {
    for (let count = 0; count < 20_000; count++)
      expect(() => parseKeys(randomBytes(32).toString('base64url'))).not.toThrow();
  });

  it('that are refused say how to make one', () => {
    expect(() => parseKeys('correct-horse-battery-staple-and-somethingA')).toThrow(
      /is a passphrase, not random bytes\. .*valise keys generate/,
    );
  });

  it.each(['not base64!', `${'+/'.repeat(21)}A=`, `${generateKey()}=`, 'é'.repeat(43), 'A'])(
    'are refused with bad-key where they are not base64url: %s',
    (key) => {
      expect(codeOf(() => parseKeys(key, { allowWeakKeys: true }))).toBe('invalid-key');
    },
  );

  it.each(['', ' ', ',', ' , '])('are refused with no-keys if there are none: "%s"', (none) => {
    expect(codeOf(() => parseKeys(none))).toBe('no-keys');
  });

  it('are refused with bad-key where something else is given', () => {
    expect(codeOf(() => createSealer({ keys: { kids: ['abcdefgh'], ephemeral: false } }))).toBe(
      'invalid-key',
    );
    expect(codeOf(() => parseKeys(undefined as never))).toBe('no-keys');
  });

  it('come from VALISE_KEYS; without it one is made for this process', () => {
    const key = generateKey();
    expect(loadKeys({ env: { VALISE_KEYS: key } })).toEqual(parseKeys(key));
    for (const env of [{}, { VALISE_KEYS: '' }, { VALISE_KEYS: ' ' }]) {
      const made = loadKeys({ env });
      expect(made.ephemeral).toBe(true);
      expect(made.kids).not.toEqual(loadKeys({ env }).kids);
    }
  });
});

describe('rotation in three phases', () => {
  it('never closes an open token, whichever instance has got how far', () => {
    const [old, next] = [generateKey(), generateKey()];
    const time = clock();
    const phases = [old, `${old},${next}`, `${next},${old}`, next];
    const instance = (phase: number) => sealerWith({ keys: phases[phase], now: time.now, ttl: 600 });
    for (let phase = 1; phase < phases.length; phase++) {
      // The last phase begins when all that was sealed with the old key is over.
      if (phase === 3) time.pass(661);
      const [before, after] = [instance(phase - 1), instance(phase)];
      for (const [sealing, opening] of [
        [before, after],
        [after, before],
      ] as const) {
        expect(opening.open(sealing.seal(phase, { purpose: 'p' }), { purpose: 'p' })).toBe(phase);
      }
    }
  });

  it('seals with the first key, and finds the right one by its kid', () => {
    const [a, b, c] = [generateKey(), generateKey(), generateKey()];
    const ring = sealerWith({ keys: `${a},${b},${c}` });
    expect(ring.kid).toBe(parseKeys(a).kids[0]);
    for (const key of [a, b, c]) {
      const one = sealerWith({ keys: key });
      expect(ring.open(one.seal('x', { purpose: 'p' }), { purpose: 'p' })).toBe('x');
    }
    expect(
      refusal(() => sealerWith({ keys: b }).open(ring.seal(1, { purpose: 'p' }), { purpose: 'p' })),
    ).toBe('unknown-key');
  });
});

describe('key material', () => {
  const key = generateKey();
  const bytes = Buffer.from(key, 'base64url');
  const spellings = [
    key,
    bytes.toString('base64'),
    bytes.toString('hex'),
    inspect(bytes).slice(8, 40),
    [...bytes.subarray(0, 6)].join(', '),
    bytes.toString('latin1'),
  ];
  const expectNone = (shown: string) => {
    for (const spelling of spellings) expect(shown).not.toContain(spelling);
  };
  const show = (thing: unknown) =>
    inspect(thing, { showHidden: true, depth: null, getters: true, maxArrayLength: null });

  it('shows in no keyring and no sealer, whichever way they are printed', () => {
    const keys = parseKeys(key);
    const sealer = createSealer({ keys });
    sealer.open(sealer.seal('value', { purpose: 'p' }), { purpose: 'p' });
    for (const thing of [keys, sealer, { ...keys }, [keys], structuredClone(keys)]) {
      expectNone(show(thing));
      expectNone(JSON.stringify(thing) ?? '');
      expectNone(String(thing));
    }
    expect(JSON.parse(JSON.stringify(keys))).toEqual({ kids: keys.kids, ephemeral: false });
    expect(Reflect.ownKeys(keys)).toEqual(['kids', 'ephemeral']);
  });

  it('shows in no error', () => {
    const errors: unknown[] = [];
    const events: unknown[] = [];
    const sealer = createSealer({
      keys: key,
      onReject: (event) => events.push(event),
      onWarning: (event) => events.push(event),
    });
    const token = sealer.seal('value', { purpose: 'p' });
    const attempts: Array<() => unknown> = [
      () => parseKeys(`${key}=`),
      () => parseKeys(`${key}AAAA`),
      () => parseKeys(`${key},${key.slice(0, 20)}`),
      () => parseKeys(key.slice(0, -4)),
      () => createSealer({ keys: key, ttl: -1 }),
      () => sealer.open(token, { purpose: 'q' }),
      () => sealer.open(`${token.slice(0, -8)}AAAAAAAA`, { purpose: 'p' }),
      () => sealer.seal(1n as never, { purpose: 'p' }),
    ];
    for (const attempt of attempts) expect(attempt).toThrow(ValiseError);
    for (const attempt of attempts) {
      try {
        attempt();
      } catch (error) {
        errors.push(error);
      }
    }
    for (const thing of [...errors, ...events]) {
      expectNone(show(thing));
      expect(show(thing)).not.toContain(key.slice(0, 12));
      if (thing instanceof Error) expectNone(`${thing.stack}`);
    }
  });
});
