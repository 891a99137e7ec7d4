import { describe, expect, it } from 'vitest';
import { ValiseError } from '../../src/core/errors.ts';
import { CODECS } from '../../src/wire/codec.ts';
import {
  announceClient,
  announceServer,
  applyState,
  createParams,
  dependentRequests,
  dependentResponses,
  inputRequired,
  listenParams,
  listParams,
  NAMES,
  sessionMethod,
  targetParams,
  writeAttributes,
  writeState,
} from '../../src/wire/index.ts';

describe('strict writers', () => {
  it.each([0, -1, 1.5, 34_560_001, Number.NaN])(
    '[J-19] Writing the max-age %s throws an error to its author',
    (maxAge) => {
      expect(() => writeAttributes('legacy', { session: { cart: { maxAge } } })).toThrowError(
        expect.objectContaining({ code: 'invalid-argument', message: expect.stringContaining('"cart"') }),
      );
    },
  );

  it.each(['', '/', '/tools'])('Writing the method-scope %j is refused', (methodScope) => {
    expect(() => writeAttributes('modern', { server: { a: { methodScope } } })).toThrow(ValiseError);
  });

  it.each(['', '.', '..com', 'https://example.com', 'a b'])(
    'Writing the server-scope %j is refused',
    (serverScope) => {
      expect(() => writeAttributes('modern', { server: { a: { serverScope } } })).toThrow(ValiseError);
    },
  );

  it('A value that JSON would omit does not make an empty scope', () => {
    expect(writeState('legacy', { session: { a: undefined } })).toBeUndefined();
  });

  it('A round has one state for all questions or one for each', () => {
    const requests = [{ method: 'elicitation/create', state: 'b' }];
    expect(() => dependentRequests({ state: 'a', requests })).toThrowError(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
  });

  it('A round is answered in full', () => {
    const asked = { requests: [{ method: 'elicitation/create' }, { method: 'roots/list' }] };
    expect(() => dependentResponses(asked, [{ result: {} }])).toThrowError(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
  });

  it('A round on 2026-07-28 has a question or a context', () => {
    expect(() => inputRequired({})).toThrowError(expect.objectContaining({ code: 'invalid-argument' }));
  });

  it('Nothing is announced if no family is used', () => {
    expect(announceClient({})).toEqual({});
    expect(announceServer({ state: false, sessions: false })).toEqual({});
  });

  it('Results name their type on 2026-07-28 and only there', () => {
    expect(CODECS.legacy.complete({})).toEqual({});
    expect(CODECS.modern.complete({})).toEqual({ resultType: 'complete' });
  });

  it('A create without a label and a list without a cursor have no params, as in the draft', () => {
    expect(createParams()).toBeUndefined();
    expect(listParams()).toBeUndefined();
    expect(listenParams('legacy')).toEqual({});
  });

  it('A delete has the form of the draft', () => {
    expect(targetParams('legacy', { sessionId: 'sess-a1b2c3d4e5f6' })).toEqual({
      _meta: { 'io.modelcontextprotocol/session': { sessionId: 'sess-a1b2c3d4e5f6' } },
    });
  });

  it('Applying state changes neither the previous state nor the update', () => {
    const held = Object.freeze({ a: 1, b: 2 });
    const update = Object.freeze({ b: null, c: 3 });
    expect({ ...applyState(held, update) }).toEqual({ a: 1, c: 3 });
  });
});

describe('session methods', () => {
  it('Session methods are recognized in every spelling', () => {
    for (const [verb, method] of Object.entries(NAMES.legacy.method)) {
      expect(sessionMethod(method)).toEqual({ verb, era: 'legacy' });
    }
    for (const [verb, method] of Object.entries(NAMES.modern.method)) {
      expect(sessionMethod(method)).toEqual({ verb, era: 'modern' });
    }
    for (const verb of ['create', 'delete', 'list', 'resume', 'recover']) {
      expect(sessionMethod(`session/${verb}`)).toEqual({ verb, era: 'legacy' });
    }
    for (const method of ['tools/call', 'sessions', 'sessions/', 'constructor']) {
      expect(sessionMethod(method)).toBeUndefined();
    }
  });
});
