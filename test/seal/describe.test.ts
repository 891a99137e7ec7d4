import { generateKey, inspectToken, parseKeys } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { clock, refusal, sealerWith } from './helpers.ts';

const time = clock();
const sealer = sealerWith({ now: time.now, ttl: 600 });
const token = sealer.seal({ secret: 'payload' }, { purpose: 'round', subject: 'alice', bind: 'x' });

describe('a token says', () => {
  it('to everybody: its version, its key and its size', () => {
    const { bytes, sealedBytes, ...rest } = inspectToken(token);
    expect(rest).toEqual({ version: 1, kid: sealer.kid });
    expect(bytes).toBe(token.length);
    expect(sealedBytes).toBe(Buffer.from(token.slice(12), 'base64url').length - 44);
  });

  it('to a holder of the key: its claims, and nothing of its payload', () => {
    const described = sealer.describe(token);
    expect(described).toEqual({
      ...inspectToken(token),
      id: Buffer.from(token.slice(12), 'base64url').subarray(0, 28).toString('base64url'),
      issuedAt: new Date('2026-08-01T12:00:00Z'),
      expiresAt: new Date('2026-08-01T12:10:00Z'),
      expired: false,
      purpose: 'round',
      audience: 'work-items',
      hasSubject: true,
      isBound: true,
      isReference: false,
      compressed: false,
    });
    expect(JSON.stringify(described)).not.toMatch(/payload|alice/);
  });

  it('the same when it is over, or meant for another server', () => {
    const keys = parseKeys(generateKey());
    const later = clock();
    const old = sealerWith({ keys, audience: 'shop', now: later.now }).seal(1, { purpose: 'jar' });
    later.pass(1e6);
    const described = sealerWith({ keys, now: later.now }).describe(old);
    expect(described).toMatchObject({
      audience: 'shop',
      purpose: 'jar',
      expired: true,
      hasSubject: false,
      isBound: false,
    });
  });

  it('nothing where it is not genuine', () => {
    expect(refusal(() => sealer.describe(`${token.slice(0, -22)}${'A'.repeat(22)}`))).toBe('tampered');
    expect(refusal(() => sealerWith().describe(token))).toBe('unknown-key');
    expect(refusal(() => sealer.describe('x'))).toBe('malformed');
    for (const odd of [
      '',
      'v1.',
      'v2.abcdefgh.AAAA',
      `${token}=`,
      'v1.!bcdefgh.'.padEnd(100, 'A'),
      undefined,
      7,
    ]) {
      expect(refusal(() => inspectToken(odd as string))).toBe('malformed');
    }
  });
});
