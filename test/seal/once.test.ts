import { generateKey, type Ledger, memoryLedger, parseKeys, storeLedger } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { clock, laterRefusal, sealerWith } from './helpers.ts';

const keys = parseKeys(generateKey());
const options = { purpose: 'confirm', subject: 'alice' };

describe.each([
  ['a store', () => storeLedger(memoryStore())],
  ['memory', () => memoryLedger()],
])('with a ledger in %s', (_, makeLedger) => {
  it('a token opens once', async () => {
    const sealer = sealerWith({ keys, ledger: makeLedger() });
    const [one, two] = [sealer.seal(1, options), sealer.seal(2, options)];
    expect(await sealer.openOnce(one, options)).toBe(1);
    expect(await laterRefusal(sealer.openOnce(one, options))).toBe('replayed');
    expect(await sealer.openOnce(two, options)).toBe(2);
  });

  it('of fifty at once on two instances exactly one opens it', async () => {
    const ledger = makeLedger();
    const instances = [sealerWith({ keys, ledger }), sealerWith({ keys, ledger })];
    const token = instances[0]?.seal('x', options) ?? '';
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, (_, index) => instances[index % 2]?.openOnce(token, options)),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  it('a token that is refused for another reason is not used up by it', async () => {
    const sealer = sealerWith({ keys, ledger: makeLedger() });
    const token = sealer.seal(1, options);
    expect(await laterRefusal(sealer.openOnce(token, { ...options, subject: 'bob' }))).toBe('wrong-subject');
    expect(await laterRefusal(sealer.openOnce(`${token}A`, options))).not.toBe('replayed');
    expect(await sealer.openOnce(token, options)).toBe(1);
  });
});

describe('the ledger', () => {
  it('remembers a token for as long as it can open, however its clock stands', async () => {
    const time = clock();
    const claims: Array<[string, number]> = [];
    const ledger: Ledger = {
      claim: async (id, ttl) => {
        claims.push([id, ttl]);
        return true;
      },
    };
    const sealer = sealerWith({ keys, ledger, now: time.now, ttl: 600 });
    const token = sealer.seal(1, options);
    await sealer.openOnce(token, options);
    time.pass(650);
    await sealer.openOnce(token, options);
    const { id } = sealer.describe(token);
    // 660 seconds after it was sealed the token is over; a minute more for a ledger whose clock is ahead.
    expect(claims).toEqual([
      [id, 720],
      [id, 70],
    ]);
  });

  it('refuses by replay also in the last moment of a token', async () => {
    const time = clock();
    const sealer = sealerWith({ keys, now: time.now, ttl: 600, ledger: memoryLedger({ now: time.now }) });
    const token = sealer.seal(1, options);
    await sealer.openOnce(token, options);
    time.pass(659);
    expect(await laterRefusal(sealer.openOnce(token, options))).toBe('replayed');
  });

  it('tells the listener of a replay, with what the token says about itself', async () => {
    const events: object[] = [];
    const sealer = sealerWith({ keys, ledger: memoryLedger(), onReject: (event) => events.push(event) });
    const token = sealer.seal(1, options);
    await sealer.openOnce(token, options);
    await laterRefusal(sealer.openOnce(token, options));
    expect(events).toMatchObject([{ reason: 'replayed', purpose: 'confirm', token: { purpose: 'confirm' } }]);
  });

  it.each<[string, Ledger]>([
    ['fails', { claim: () => Promise.reject(new Error('connection lost')) }],
    [
      'throws',
      {
        claim: () => {
          throw new Error('broken');
        },
      },
    ],
  ])('keeps a token closed with ledger-failed where it %s', async (_, ledger) => {
    const sealer = sealerWith({ keys, ledger });
    const opening = sealer.openOnce(sealer.seal(1, options), options);
    await expect(opening).rejects.toMatchObject({ code: 'not-saved', cause: expect.any(Error) });
  });

  it('keeps a token closed where its answer is not a clear yes', async () => {
    const sealer = sealerWith({ keys, ledger: { claim: async () => undefined as never } });
    expect(await laterRefusal(sealer.openOnce(sealer.seal(1, options), options))).toBe('replayed');
  });

  it('is needed: without one openOnce fails with no-ledger', async () => {
    const sealer = sealerWith({ keys });
    await expect(sealer.openOnce(sealer.seal(1, options), options)).rejects.toMatchObject({
      code: 'invalid-argument',
    });
  });

  it('in a store writes one entry per token under its prefix, with the lifetime of the token', async () => {
    const store = memoryStore();
    const sealer = sealerWith({ keys, ledger: storeLedger(store, { prefix: 'used:' }) });
    const token = sealer.seal(1, options);
    await sealer.openOnce(token, options);
    const { keys: names } = await store.list('');
    expect(names).toEqual([`used:${sealer.describe(token).id}`]);
    expect((await store.get(names[0] ?? ''))?.expiresAt).toBeGreaterThan(Date.now() + 650_000);
    await store.close();
    const later = sealer.openOnce(sealer.seal(2, options), options);
    await expect(later).rejects.toMatchObject({ code: 'not-saved' });
  });

  it('in memory refuses when full, until what it remembers has ended', async () => {
    const time = clock();
    const ledger = memoryLedger({ max: 3, now: time.now });
    const sealer = sealerWith({ keys, ledger, now: time.now, ttl: 60 });
    const tokens = Array.from({ length: 4 }, (_, index) => sealer.seal(index, options));
    for (const token of tokens.slice(0, 3)) await sealer.openOnce(token, options);
    const full = sealer.openOnce(tokens[3] ?? '', options);
    await expect(full).rejects.toMatchObject({ code: 'not-saved', cause: { code: 'limit-reached' } });
    expect(await laterRefusal(sealer.openOnce(tokens[0] ?? '', options))).toBe('replayed');
    time.pass(60 + 120);
    expect(await sealer.openOnce(sealer.seal('new', options), options)).toBe('new');
  });
});
