import type { JSONRPCMessage as V2Message } from '@modelcontextprotocol/client';
import type { JSONRPCMessage as V1Message } from '@modelcontextprotocol/sdk/types.js';
import { describe, expectTypeOf, it } from 'vitest';
import { type Message, NAMES, type Names, readSession, type SessionReading } from '../../src/wire/index.ts';

describe('types', () => {
  it('messages of both SDK majors are our messages, with no cast', () => {
    expectTypeOf<V1Message>().toExtend<Message>();
    expectTypeOf<V2Message>().toExtend<Message>();
  });

  it('names are literal where the era is known, and uniform where it is not', () => {
    expectTypeOf(NAMES.modern.session).toEqualTypeOf<'dev.valise/session'>();
    expectTypeOf<(typeof NAMES)['legacy' | 'modern']>().toExtend<Names>();
  });

  it('a reading has to be told apart before it is used', () => {
    expectTypeOf(readSession).returns.toEqualTypeOf<SessionReading>();
  });
});
