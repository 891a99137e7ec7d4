import { once } from 'node:events';
import { createSealer, generateKey, parseKeys, SealError, ValiseError } from 'mcp-valise/seal';
import { describe, expect, it, vi } from 'vitest';
import { clock, refusal, sealerWith } from './helpers.ts';

describe('a sealed value', () => {
  const sealer = sealerWith({ ttl: 600 });

  it('comes back as it was', () => {
    const value = { step: 2, answers: ['a', null, true, 1.5], nested: { deep: [[]] } };
    expect(sealer.open(sealer.seal(value, { purpose: 'round' }), { purpose: 'round' })).toEqual(value);
  });

  it.each([null, true, 0, '', 'text', [], {}, [null]])('may be %j', (value) => {
    expect(sealer.open(sealer.seal(value, { purpose: 'p' }), { purpose: 'p' })).toEqual(value);
  });

  it('travels as URL-safe text: version, kid, body', () => {
    expect(sealer.seal({ a: 1 }, { purpose: 'p' })).toMatch(/^v1\.[\w-]{8}\.[\w-]+$/);
  });

  it('cannot be read in its token', () => {
    const token = sealer.seal(
      { secret: 'hush-hush' },
      { purpose: 'purpose', subject: 'alice', bind: 'session' },
    );
    const seen = Buffer.from(token.slice(12), 'base64url').toString('latin1') + token;
    for (const word of ['hush', 'secret', 'purpose', 'alice', 'session', 'work-items'])
      expect(seen).not.toContain(word);
  });

  it('gives another token every time', () => {
    const tokens = Array.from({ length: 1000 }, () => sealer.seal(1, { purpose: 'p' }));
    expect(new Set(tokens).size).toBe(1000);
  });

  it('opens on every instance that has the key', () => {
    const keys = parseKeys(generateKey());
    const [one, two] = [sealerWith({ keys }), sealerWith({ keys })];
    expect(two.open(one.seal('x', { purpose: 'p' }), { purpose: 'p' })).toBe('x');
  });

  it('works without its object, as a plain function', () => {
    const { seal, open } = sealer;
    expect(open(seal('x', { purpose: 'p' }), { purpose: 'p' })).toBe('x');
  });
});

describe('a token is refused', () => {
  const options = { purpose: 'round', subject: 'alice', bind: { method: 'tools/call', args: { id: 1 } } };
  const keys = parseKeys(generateKey());
  const sealer = sealerWith({ keys });
  const token = sealer.seal('value', options);

  it('with wrong-purpose for another purpose', () => {
    expect(refusal(() => sealer.open(token, { ...options, purpose: 'jar' }))).toBe('wrong-purpose');
  });

  it('with wrong-audience by another server with the same keys', () => {
    expect(refusal(() => sealerWith({ keys, audience: 'shop' }).open(token, options))).toBe('wrong-audience');
  });

  it.each([{ subject: 'bob' }, { subject: undefined }, { subject: '' }])(
    'with wrong-subject for %j',
    (other) => {
      expect(refusal(() => sealer.open(token, { ...options, ...other }))).toBe('wrong-subject');
    },
  );

  it('with wrong-subject where only the opener names one', () => {
    const free = sealer.seal('value', { purpose: 'round' });
    expect(refusal(() => sealer.open(free, { purpose: 'round', subject: 'alice' }))).toBe('wrong-subject');
    expect(refusal(() => sealer.open(free, { purpose: 'round', subject: '' }))).toBe('wrong-subject');
  });

  it.each([
    { bind: { method: 'tools/call', args: { id: 2 } } },
    { bind: undefined },
    { bind: null },
    { bind: 'x' },
  ])('with wrong-binding for %j', (other) => {
    expect(refusal(() => sealer.open(token, { ...options, ...other }))).toBe('wrong-binding');
  });

  it('with wrong-binding where only the opener binds, also to null', () => {
    const free = sealer.seal('value', { purpose: 'round' });
    expect(refusal(() => sealer.open(free, { purpose: 'round', bind: 'x' }))).toBe('wrong-binding');
    expect(refusal(() => sealer.open(free, { purpose: 'round', bind: null }))).toBe('wrong-binding');
  });

  it('with wrong-binding, not an overflow, for a binding too deep to have been sealed', () => {
    const deep = JSON.parse('['.repeat(50_000) + ']'.repeat(50_000));
    expect(refusal(() => sealer.open(token, { ...options, bind: deep }))).toBe('wrong-binding');
    const free = sealer.seal('value', { purpose: 'round' });
    expect(refusal(() => sealer.open(free, { purpose: 'round', bind: deep }))).toBe('wrong-binding');
    expect(() => sealer.seal(1, { purpose: 'p', bind: deep })).toThrow(/deeper than/);
  });

  it('with unknown-key where the ring lacks its key', () => {
    expect(refusal(() => sealerWith().open(token, options))).toBe('unknown-key');
  });

  it('with malformed where it is no token', () => {
    const texts = [
      '',
      'v1',
      'v1..',
      'v1.abcdefgh.',
      `v2${token.slice(2)}`,
      token.slice(0, 12),
      `${token}=`,
      `${token}\n`,
      ` ${token}`,
    ];
    for (const text of texts)
      expect(
        refusal(() => sealer.open(text, options)),
        text,
      ).toBe('malformed');
    for (const odd of [undefined, null, 7, {}, [token], Buffer.from(token)]) {
      expect(refusal(() => sealer.open(odd as unknown as string, options))).toBe('malformed');
    }
  });

  it('with malformed, before it is decoded, where it is longer than maxBytes', () => {
    const small = sealerWith({ keys, maxBytes: token.length });
    expect(small.open(token, options)).toBe('value');
    const decode = vi.spyOn(Buffer.prototype, 'write');
    expect(refusal(() => small.open(`${token}A`, options))).toBe('malformed');
    expect(decode).not.toHaveBeenCalled();
    decode.mockRestore();
  });

  it('with the first cause in a fixed order if there are several', () => {
    const time = clock();
    const late = sealerWith({ keys, now: time.now, audience: 'shop' });
    const foreign = sealerWith({ keys, now: time.now }).seal(1, options);
    const open = (other: object) => () => late.open(foreign, { ...options, ...other });
    const all = { purpose: 'x', subject: 'x', bind: 'x' };
    expect(refusal(open(all))).toBe('wrong-audience');
    time.pass(1000);
    expect(refusal(open(all))).toBe('expired');
  });
});

describe('time', () => {
  it('ends a token after its ttl and 60 seconds for the clocks', () => {
    const time = clock();
    const sealer = sealerWith({ ttl: 600, now: time.now });
    const token = sealer.seal(1, { purpose: 'p' });
    time.pass(659);
    expect(sealer.open(token, { purpose: 'p' })).toBe(1);
    time.pass(1);
    expect(refusal(() => sealer.open(token, { purpose: 'p' }))).toBe('expired');
  });

  it('is ten minutes by default, on the clock of the machine', () => {
    vi.useFakeTimers();
    try {
      const sealer = sealerWith();
      const token = sealer.seal(1, { purpose: 'p' });
      vi.advanceTimersByTime(659_000);
      expect(sealer.open(token, { purpose: 'p' })).toBe(1);
      vi.advanceTimersByTime(2_000);
      expect(refusal(() => sealer.open(token, { purpose: 'p' }))).toBe('expired');
    } finally {
      vi.useRealTimers();
    }
  });

  it('may be given per sealer and per token, in seconds or words', () => {
    const time = clock();
    const sealer = sealerWith({ ttl: '4h', skew: 0, now: time.now });
    const hours = sealer.seal(1, { purpose: 'p' });
    const seconds = sealer.seal(1, { purpose: 'p', ttl: 0.5 });
    const days = sealer.seal(1, { purpose: 'p', ttl: '30d' });
    time.pass(1);
    expect(refusal(() => sealer.open(seconds, { purpose: 'p' }))).toBe('expired');
    time.pass(4 * 3600 - 2);
    expect(sealer.open(hours, { purpose: 'p' })).toBe(1);
    time.pass(1);
    expect(refusal(() => sealer.open(hours, { purpose: 'p' }))).toBe('expired');
    expect(sealer.open(days, { purpose: 'p' })).toBe(1);
  });

  it('refuses a token that comes from more than 60 seconds ahead', () => {
    const keys = parseKeys(generateKey());
    const [here, ahead] = [clock(), clock()];
    const token = (seconds: number) => {
      ahead.pass(seconds);
      return sealerWith({ keys, now: ahead.now }).seal(1, { purpose: 'p' });
    };
    const opener = sealerWith({ keys, now: here.now });
    expect(opener.open(token(60), { purpose: 'p' })).toBe(1);
    expect(refusal(() => opener.open(token(1), { purpose: 'p' }))).toBe('expired');
  });

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 'soon', '1w'])('has to end: %s is no ttl', (ttl) => {
    expect(() => sealerWith({ ttl })).toThrow(ValiseError);
    expect(() => sealerWith().seal(1, { purpose: 'p', ttl })).toThrow(ValiseError);
  });
});

describe('a binding', () => {
  const sealer = sealerWith();
  const seal = (bind: Parameters<typeof sealer.seal>[1]['bind']) => sealer.seal(1, { purpose: 'p', bind });

  it('does not mind the order of keys', () => {
    const token = seal({ b: [1, { y: 1, x: 2 }], a: 'x' });
    expect(sealer.open(token, { purpose: 'p', bind: { a: 'x', b: [1, { x: 2, y: 1 }] } })).toBe(1);
  });

  it('minds the order of lists, and text is not a number', () => {
    expect(refusal(() => sealer.open(seal([1, 2]), { purpose: 'p', bind: [2, 1] }))).toBe('wrong-binding');
    expect(refusal(() => sealer.open(seal('1'), { purpose: 'p', bind: 1 }))).toBe('wrong-binding');
  });

  it('tells a subject from a binding of the same text', () => {
    const token = sealer.seal(1, { purpose: 'p', subject: 'alice' });
    expect(refusal(() => sealer.open(token, { purpose: 'p', bind: 'alice' }))).toBe('wrong-subject');
  });
});

describe('what cannot be sealed', () => {
  const sealer = sealerWith();
  const circle: unknown[] = [];
  circle.push(circle);

  it.each([
    ['undefined', undefined],
    ['a function', () => 1],
    ['a bigint', 1n],
    ['a circle', circle],
  ])('%s is refused with bad-value', (_, value) => {
    expect(() => sealer.seal(value as never, { purpose: 'p' })).toThrow(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
  });

  it('a value over maxBytes is refused with seal-too-large, before a token is made that would not open', () => {
    const small = sealerWith({ maxBytes: 500 });
    for (let length = 0; length < 600; length++) {
      let token: string;
      try {
        token = small.seal('é'.repeat(length), { purpose: 'p' });
      } catch (error) {
        expect(error).toMatchObject({ code: 'too-large' });
        expect(length).toBeGreaterThan(100);
        continue;
      }
      expect(small.open(token, { purpose: 'p' })).toHaveLength(length);
    }
  });

  it('a missing purpose, an odd subject and odd settings are refused with bad-option', () => {
    const bad = expect.objectContaining({ code: 'invalid-argument' });
    expect(() => sealer.seal(1, {} as never)).toThrow(bad);
    expect(() => sealer.seal(1, undefined as never)).toThrow(bad);
    expect(() => sealer.seal(1, { purpose: '' })).toThrow(bad);
    expect(() => sealer.open('x', {} as never)).toThrow(bad);
    expect(() => sealer.seal(1, { purpose: 'p', subject: 7 as never })).toThrow(bad);
    for (const options of [
      { skew: -1 },
      { maxBytes: 0 },
      { compressAbove: Number.NaN },
      { audience: 7 as never },
    ]) {
      expect(() => sealerWith(options)).toThrow(bad);
    }
  });
});

describe('a refusal', () => {
  const time = clock();
  const keys = parseKeys(`${generateKey()},${generateKey()}`);
  const events: object[] = [];
  const options = { purpose: 'round', subject: 'alice', bind: 'session-1' };
  const sealer = sealerWith({ keys, now: time.now, onReject: (event) => events.push(event) });
  const token = sealer.seal({ secret: 'payload' }, options);

  const errors = () => {
    const attempts: Array<() => unknown> = [
      () => sealer.open('nonsense', options),
      () => sealer.open(sealerWith().seal(1, options), options),
      () => sealer.open(`${token.slice(0, -30)}${'A'.repeat(30)}`, options),
      () => sealer.open(sealer.seal(1, { ...options, purpose: 'other' }), options),
      () => sealer.open(sealer.seal(1, { ...options, subject: 'bob' }), options),
      () => sealer.open(sealer.seal(1, { ...options, bind: 'session-2' }), options),
      () => sealer.open(sealerWith({ keys, audience: 'other', now: time.now }).seal(1, options), options),
      () => sealer.open(sealerWith({ keys, now: () => time.now() - 1e7 }).seal(1, options), options),
    ];
    return attempts.map((attempt) => {
      try {
        attempt();
      } catch (error) {
        return error as SealError;
      }
      throw new Error('opened');
    });
  };

  it('looks one and the same from outside, whatever the cause', () => {
    const all = errors();
    expect(new Set(all.map(({ reason }) => reason)).size).toBe(8);
    expect(new Set(all.map(({ message }) => message))).toEqual(
      new Set(['The token was refused. Start over to get a new one.']),
    );
    expect(new Set(all.map(({ name, next, cause }) => JSON.stringify([name, next, cause]))).size).toBe(1);
    // The place it is thrown from would tell as well.
    expect(new Set(all.map(({ stack = '' }) => stack.split('\n')[1])).size).toBe(1);
  });

  it('is a ValiseError', () => {
    for (const error of errors()) {
      expect(error).toBeInstanceOf(SealError);
      expect(error).toBeInstanceOf(ValiseError);
    }
  });

  it('tells its cause to onReject, with what a genuine token says about itself and nothing of its payload', () => {
    events.length = 0;
    refusal(() => sealer.open(token, { ...options, purpose: 'jar' }));
    refusal(() => sealer.open(`${token.slice(0, -30)}${'A'.repeat(30)}`, options));
    expect(events).toMatchObject([
      {
        reason: 'wrong-purpose',
        purpose: 'jar',
        token: { purpose: 'round', audience: 'work-items', hasSubject: true, isBound: true, kid: sealer.kid },
      },
      { reason: 'tampered', purpose: 'round' },
    ]);
    expect(events[1]).not.toHaveProperty('token');
    expect(JSON.stringify(events)).not.toMatch(/payload|secret|alice|session-1/);
  });

  it('stays a refusal where the listener throws, which becomes a warning of the process', async () => {
    const heard = once(process, 'warning');
    const loud = sealerWith({
      onReject: () => {
        throw new Error('listener');
      },
    });
    expect(refusal(() => loud.open('nonsense', { purpose: 'p' }))).toBe('malformed');
    expect(await heard).toMatchObject([{ name: 'ValiseWarning', code: 'listener-threw' }]);
  });

  it('takes equally long for every claim that does not fit', () => {
    const quiet = sealerWith({ keys, now: time.now });
    const elsewhere = sealerWith({ keys, now: time.now, audience: 'elsewhere' });
    const later = sealerWith({ keys, now: () => time.now() + 1e7 });
    const attempts: Array<() => unknown> = [
      () => later.open(token, options),
      () => elsewhere.open(token, options),
      () => quiet.open(token, { ...options, subject: 'bob' }),
      () => quiet.open(token, { ...options, bind: 'session-2' }),
      () => quiet.open(token, { ...options, purpose: 'jar' }),
    ];
    const times: number[][] = attempts.map(() => []);
    for (let round = 0; round < 400; round++) {
      attempts.forEach((attempt, index) => {
        const start = process.hrtime.bigint();
        for (let call = 0; call < 10; call++) refusal(attempt);
        times[index]?.push(Number(process.hrtime.bigint() - start));
      });
    }
    const medians = times.map((list) => list.sort((a, b) => a - b)[list.length >> 1] ?? 0);
    expect(Math.max(...medians) / Math.min(...medians)).toBeLessThan(1.5);
  });
});

describe('a sealer without keys', () => {
  it('makes one up, says so, and still seals', () => {
    vi.stubEnv('VALISE_KEYS', undefined);
    const warnings: unknown[] = [];
    const sealer = createSealer({ onWarning: (warning) => warnings.push(warning) });
    expect(warnings).toEqual([{ code: 'ephemeral-key', message: expect.stringContaining('VALISE_KEYS') }]);
    expect(sealer.ephemeral).toBe(true);
    expect(sealer.open(sealer.seal(1, { purpose: 'p' }), { purpose: 'p' })).toBe(1);
    expect(refusal(() => createSealer().open(sealer.seal(1, { purpose: 'p' }), { purpose: 'p' }))).toBe(
      'unknown-key',
    );
    vi.unstubAllEnvs();
  });

  it('reads VALISE_KEYS first', () => {
    vi.stubEnv('VALISE_KEYS', generateKey());
    const warn = vi.fn();
    const token = createSealer({ onWarning: warn }).seal(1, { purpose: 'p' });
    expect(createSealer({ onWarning: warn }).open(token, { purpose: 'p' })).toBe(1);
    expect(warn).not.toHaveBeenCalled();
    vi.unstubAllEnvs();
  });
});
