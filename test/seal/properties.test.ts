import fc from 'fast-check';
import { createSealer, generateKey, type Json, parseKeys } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { canonicalJson } from '../../src/seal/canonical.ts';
import { bodyOf, refusal, withBody } from './helpers.ts';

/** Any text that JavaScript can hold, lone surrogates and all. */
const anyText = fc.oneof(
  fc.string(),
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 12 })
    .map((units) => String.fromCharCode(...units)),
  fc.constantFrom('__proto__', 'constructor', 'toJSON', '\ud800', '\udc00x', '\u2028', '\0'),
);

/** Any JSON value, with `__proto__` as an own key among others. */
const { value: anyJson } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, false),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.integer(),
    anyText,
    fc.array(tie('value'), { maxLength: 6 }),
    fc.array(fc.tuple(anyText, tie('value')), { maxLength: 6 }).map((entries) => Object.fromEntries(entries)),
  ),
}));

const keys = parseKeys(`${generateKey()},${generateKey()}`);
const sealer = createSealer({ keys, audience: 'work-items' });
const open = { purpose: 'round', subject: 'alice', bind: { id: 1 } };
const genuine = (token: string) => sealer.open(token, open);
const different = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.tuple(arbitrary, arbitrary).filter(([a, b]) => a !== b);

describe('whatever JSON can hold', () => {
  it('comes back as it was', () => {
    fc.assert(
      fc.property(anyJson, (value) => {
        const back = genuine(sealer.seal(value, open));
        expect(JSON.stringify(back)).toBe(JSON.stringify(value));
      }),
      { numRuns: 500 },
    );
  });

  it('comes back compressed as well', () => {
    const packing = createSealer({ keys, audience: 'work-items', compressAbove: 0 });
    fc.assert(
      fc.property(anyJson, (value) => {
        expect(JSON.stringify(genuine(packing.seal(value, open)))).toBe(JSON.stringify(value));
      }),
    );
  });

  it('sets no prototype on its way', () => {
    const value = JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{"x":1}}}');
    const back = genuine(sealer.seal(value, open)) as object;
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
    expect(Object.hasOwn(back, '__proto__')).toBe(true);
    expect('polluted' in back).toBe(false);
    expect({}).not.toHaveProperty('polluted');
  });

  it('may serve as purpose, audience, subject and binding', () => {
    fc.assert(
      fc.property(
        anyText,
        anyText.filter((text) => text !== ''),
        anyText,
        anyJson,
        (audience, purpose, subject, bind) => {
          const named = createSealer({ keys, audience });
          expect(named.open(named.seal(1, { purpose, subject, bind }), { purpose, subject, bind })).toBe(1);
        },
      ),
    );
  });
});

describe('never opens', () => {
  const token = sealer.seal({ a: [1, 2, 3] }, open);
  const body = bodyOf(token);

  it('a token with any bit flipped', () => {
    for (let bit = 0; bit < body.length * 8; bit++) {
      const changed = Buffer.from(body);
      changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      expect(refusal(() => genuine(withBody(token, changed)))).toBe('tampered');
    }
  });

  it('a token with any character changed', () => {
    const letter = fc.oneof(
      fc.constantFrom(...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. \n'),
      fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
    );
    fc.assert(
      fc.property(fc.nat(token.length - 1), letter, (at, other) => {
        fc.pre(token[at] !== other);
        refusal(() => genuine(token.slice(0, at) + other + token.slice(at + 1)));
      }),
      { numRuns: 2000 },
    );
  });

  it('a token in another spelling of the same bytes', () => {
    const two = sealer.seal(
      'x'.repeat([...'abc'].findIndex((_, n) => bodyOf(sealer.seal('x'.repeat(n), open)).length % 3 === 1)),
      open,
    );
    const last = two.at(-1) ?? '';
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const twin = two.slice(0, -1) + alphabet[alphabet.indexOf(last) + 1];
    expect(Buffer.compare(bodyOf(two), bodyOf(twin))).toBe(0);
    const spellings = [
      twin,
      `${two}=`,
      `${two}==`,
      `${two} `,
      two.replaceAll('-', '+').replaceAll('_', '/'),
      // Node takes the low byte of a character for the character.
      two.slice(0, 12) + String.fromCharCode(two.charCodeAt(12) + 0x100) + two.slice(13),
      `${two.slice(0, 20)}\n${two.slice(20)}`,
    ].filter((spelling) => spelling !== two);
    for (const spelling of spellings)
      expect(
        refusal(() => genuine(spelling)),
        spelling,
      ).toBe('malformed');
    expect(genuine(two)).toEqual(expect.any(String));
  });

  it('a token cut off anywhere, or with anything added', () => {
    for (let length = 0; length < token.length; length++) refusal(() => genuine(token.slice(0, length)));
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), (text) => {
        refusal(() => genuine(token + text));
        refusal(() => genuine(text + token));
      }),
    );
    for (let cut = 1; cut < body.length; cut++) refusal(() => genuine(withBody(token, body.subarray(cut))));
  });

  it('a token made of parts of two', () => {
    const other = bodyOf(createSealer({ keys, audience: 'work-items' }).seal({ a: [4, 5, 6] }, open));
    const sibling = bodyOf(sealer.seal({ a: [7, 8, 9] }, open));
    const ends = [16, 28, body.length - 16, body.length];
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(body, other, sibling), { minLength: 4, maxLength: 4 }),
        (sources) => {
          fc.pre(new Set(sources).size > 1);
          // Salt and nonce of one sibling are those of the other but for the counter: only a true mixture counts.
          const mixed = Buffer.concat(
            sources.map((source, part) => source.subarray(ends[part - 1] ?? 0, ends[part])),
          );
          fc.pre(![body, other, sibling].some((whole) => whole.equals(mixed)));
          expect(refusal(() => genuine(withBody(token, mixed)))).toBe('tampered');
        },
      ),
      { numRuns: 200 },
    );
  });

  it('a token whose bytes have changed places', () => {
    fc.assert(
      fc.property(fc.nat(body.length - 1), fc.nat(body.length - 1), (from, to) => {
        fc.pre(body[from] !== body[to]);
        const changed = Buffer.from(body);
        changed.writeUInt8(body.readUInt8(to), from);
        changed.writeUInt8(body.readUInt8(from), to);
        expect(refusal(() => genuine(withBody(token, changed)))).toBe('tampered');
      }),
    );
  });

  it('a token under the kid of another key of the ring', () => {
    const [, second = ''] = keys.kids;
    expect(refusal(() => genuine(token.replace(sealer.kid, second)))).toBe('tampered');
  });

  it('made-up tokens', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.string(), (bytes, text) => {
        refusal(() => genuine(withBody(token, bytes)));
        refusal(() => genuine(text));
        refusal(() => genuine(`v1.${text}`));
      }),
      { numRuns: 500 },
    );
  });

  it('for another purpose, audience or subject', () => {
    fc.assert(
      fc.property(different(anyText), ([one, two]) => {
        const [mine, theirs] = [createSealer({ keys, audience: one }), createSealer({ keys, audience: two })];
        expect(refusal(() => theirs.open(mine.seal(1, open), open))).toBe('wrong-audience');
        const subject = sealer.seal(1, { ...open, subject: one });
        expect(refusal(() => sealer.open(subject, { ...open, subject: two }))).toBe('wrong-subject');
        fc.pre(one !== '' && two !== '');
        const purpose = sealer.seal(1, { ...open, purpose: one });
        expect(refusal(() => sealer.open(purpose, { ...open, purpose: two }))).toBe('wrong-purpose');
      }),
    );
  });

  it('for another binding', () => {
    fc.assert(
      fc.property(anyJson, anyJson, (one, two) => {
        fc.pre(canonicalJson(one) !== canonicalJson(two));
        const bound = sealer.seal(1, { ...open, bind: one });
        expect(refusal(() => sealer.open(bound, { ...open, bind: two }))).toBe('wrong-binding');
      }),
      { numRuns: 300 },
    );
  });

  it('with other keys', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), anyJson, (bytes, value) => {
        const text = Buffer.from(bytes).toString('base64url');
        const stranger = createSealer({ keys: text, allowWeakKeys: true, audience: 'work-items' });
        expect(refusal(() => stranger.open(sealer.seal(value, open), open))).toBe('unknown-key');
      }),
    );
  });
});

describe('canonical JSON', () => {
  const shuffled = (value: Json): Json => {
    if (Array.isArray(value)) return value.map(shuffled);
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(
      Object.entries(value)
        .reverse()
        .map(([key, inner]) => [key, shuffled(inner)]),
    );
  };

  it('is the same for the same value, however its keys are ordered', () => {
    fc.assert(fc.property(anyJson, (value) => canonicalJson(shuffled(value)) === canonicalJson(value)));
  });

  it('is JSON for the same value, so two values never share a text', () => {
    fc.assert(
      fc.property(anyJson, (value) => {
        expect(canonicalJson(JSON.parse(canonicalJson(value)))).toBe(canonicalJson(value));
        const plain = JSON.parse(JSON.stringify(value));
        expect(JSON.stringify(shuffled(shuffled(JSON.parse(canonicalJson(value)))))).toHaveLength(
          JSON.stringify(plain).length,
        );
      }),
    );
  });

  it('refuses what JSON would leave out or make alike', () => {
    for (const odd of [
      undefined,
      Number.NaN,
      [undefined],
      new Map([[1, 2]]),
      new Set(),
      /x/,
      () => 1,
      { a: Symbol('x') },
      1n,
    ]) {
      expect(() => canonicalJson(odd)).toThrow(expect.objectContaining({ code: 'invalid-argument' }));
    }
    expect(canonicalJson({ at: new Date(0), none: undefined })).toBe('{"at":"1970-01-01T00:00:00.000Z"}');
  });
});
