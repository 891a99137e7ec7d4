import { describe, expect, it } from 'vitest';
import { ValiseError } from '../../src/errors.ts';
import {
  announceClient,
  announceServer,
  applyState,
  createParams,
  dependentRequests,
  dependentResponses,
  emptyResult,
  inputRequired,
  listenParams,
  listParams,
  NAMES,
  sessionMethod,
  targetParams,
  writeAttributes,
  writeState,
} from '../../src/wire/index.ts';

describe('writing is strict', () => {
  it.each([0, -1, 1.5, 34_560_001, Number.NaN])(
    '[J-19] max-age %s is refused where its author can see it',
    (maxAge) => {
      expect(() => writeAttributes('legacy', { session: { cart: { maxAge } } })).toThrowError(
        expect.objectContaining({ code: 'invalid-argument', message: expect.stringContaining('"cart"') }),
      );
    },
  );

  it.each(['', '/', '/tools'])('method-scope %j is refused', (methodScope) => {
    expect(() => writeAttributes('modern', { server: { a: { methodScope } } })).toThrow(ValiseError);
  });

  it.each(['', '.', '..com', 'https://example.com', 'a b'])('server-scope %j is refused', (serverScope) => {
    expect(() => writeAttributes('modern', { server: { a: { serverScope } } })).toThrow(ValiseError);
  });

  it('a value that JSON would leave out does not make an empty scope', () => {
    expect(writeState('legacy', { session: { a: undefined } })).toBeUndefined();
  });

  it('a round has one state for all or one with each', () => {
    const requests = [{ method: 'elicitation/create', state: 'b' }];
    expect(() => dependentRequests({ state: 'a', requests })).toThrowError(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
  });

  it('a round is answered in full', () => {
    const asked = { requests: [{ method: 'elicitation/create' }, { method: 'roots/list' }] };
    expect(() => dependentResponses(asked, [{ result: {} }])).toThrowError(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
  });

  it('a round on 2026-07-28 has a question or a context', () => {
    expect(() => inputRequired({})).toThrowError(expect.objectContaining({ code: 'invalid-argument' }));
  });

  it('nothing is announced where there is nothing', () => {
    expect(announceClient({})).toEqual({});
    expect(announceServer({ state: false, sessions: false })).toEqual({});
  });

  it('results name their type on 2026-07-28 and only there', () => {
    expect(emptyResult('legacy')).toEqual({});
    expect(emptyResult('modern')).toEqual({ resultType: 'complete' });
  });

  it('a create without a label and a list without a cursor have no params, as in the draft', () => {
    expect(createParams()).toBeUndefined();
    expect(listParams()).toBeUndefined();
    expect(listenParams('legacy')).toEqual({});
  });

  it('a delete is the draft’s own', () => {
    expect(targetParams('legacy', { sessionId: 'sess-a1b2c3d4e5f6' })).toEqual({
      _meta: { 'io.modelcontextprotocol/session': { sessionId: 'sess-a1b2c3d4e5f6' } },
    });
  });

  it('applying state changes neither what was held nor the update', () => {
    const held = Object.freeze({ a: 1, b: 2 });
    const update = Object.freeze({ b: null, c: 3 });
    expect({ ...applyState(held, update) }).toEqual({ a: 1, c: 3 });
  });
});

describe('session methods', () => {
  it('are known in every spelling', () => {
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
