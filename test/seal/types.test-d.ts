import {
  createSealer,
  type Json,
  type SealError,
  type SealerOptions,
  type SealReason,
  type storeLedger,
} from 'mcp-valise/seal';
import type { Store } from 'mcp-valise/store';
import { describe, expectTypeOf, it } from 'vitest';

describe('types', () => {
  const sealer = createSealer();

  it('every store serves as a ledger and to spill to, with no cast', () => {
    expectTypeOf<Store>().toExtend<Parameters<typeof storeLedger>[0]>();
    expectTypeOf<Store>().toExtend<NonNullable<SealerOptions['spill']>['store']>();
  });

  it('a refusal has one of nine reasons', () => {
    expectTypeOf<SealError['reason']>().toEqualTypeOf<SealReason>();
    expectTypeOf<SealReason>().toEqualTypeOf<
      | 'malformed'
      | 'unknown-key'
      | 'tampered'
      | 'expired'
      | 'wrong-audience'
      | 'wrong-subject'
      | 'wrong-binding'
      | 'wrong-purpose'
      | 'replayed'
    >();
  });

  it('what comes out is JSON, or what the caller knows it to be', () => {
    expectTypeOf(sealer.open('', { purpose: 'p' })).toEqualTypeOf<Json>();
    expectTypeOf(sealer.open<{ step: number }>('', { purpose: 'p' })).toEqualTypeOf<{ step: number }>();
    expectTypeOf(sealer.openOnce<string>('', { purpose: 'p' })).resolves.toEqualTypeOf<string>();
  });

  it('sealing is synchronous and needs a purpose', () => {
    expectTypeOf(sealer.seal).returns.toEqualTypeOf<string>();
    // @ts-expect-error a purpose is missing
    sealer.seal(1, {});
    // @ts-expect-error a function is not JSON
    sealer.seal(() => 1, { purpose: 'p' });
    sealer.seal(1, { purpose: 'p', subject: undefined, bind: undefined, ttl: '10m' });
  });
});
