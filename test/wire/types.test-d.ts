import type { JSONRPCMessage as V2Message } from '@modelcontextprotocol/client';
import type { JSONRPCMessage as V1Message } from '@modelcontextprotocol/sdk/types.js';
import { describe, expectTypeOf, it } from 'vitest';
import { type Message, NAMES, type Names, readSession, type SessionReading } from '../../src/wire/index.ts';

describe('types', () => {
  it('Messages of both SDK majors are Valise messages without a cast', () => {
    expectTypeOf<V1Message>().toExtend<Message>();
    expectTypeOf<V2Message>().toExtend<Message>();
  });

  it('Names are literal types if the era is known, and uniform types if not', () => {
    expectTypeOf(NAMES.modern.session).toEqualTypeOf<'dev.valise/session'>();
    expectTypeOf<(typeof NAMES)['legacy' | 'modern']>().toExtend<Names>();
  });

  it('A reading has to be narrowed before it is used', () => {
    expectTypeOf(readSession).returns.toEqualTypeOf<SessionReading>();
  });
});
