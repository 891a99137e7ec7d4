import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lowerObject, lowerText, parseLowered, raise, restoreRaw, takeTop } from '../../src/edge/drafts.ts';
import { skimArray, skimObject } from '../../src/edge/json-scan.ts';
import type { Message, Response } from '../../src/wire/index.ts';

const take = (text: string) => takeTop(parseLowered(text) as Message);

describe('skimming', () => {
  it('Skimming finds the text of every member and element, whatever they contain', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.json()),
        fc.constantFrom('', ' ', '\n\t '),
        (members, blank) => {
          const text = `${blank}{${Object.entries(members)
            .map(([key, json]) => `${blank}${JSON.stringify(key)}${blank}:${blank}${json}${blank}`)
            .join(',')}}`;
          const spans = skimObject(text);
          for (const [key, json] of Object.entries(members)) {
            const span = spans?.get(key);
            expect(text.slice(span?.start, span?.end)).toBe(json.trim());
          }
          expect(spans?.size).toBe(Object.keys(members).length);
        },
      ),
    );
    const list = '[ 1.0 ,"a,]", {"b":[]} ]';
    expect(skimArray(list)?.map(({ start, end }) => list.slice(start, end))).toEqual([
      '1.0',
      '"a,]"',
      '{"b":[]}',
    ]);
  });

  it('Skimming needs no stack for deep nesting', () => {
    const deep = `{"state":${'['.repeat(200_000)}${']'.repeat(200_000)}}`;
    expect(skimObject(deep)?.get('state')?.end).toBe(deep.length - 1);
  });

  it('Skimming returns undefined for a value that is neither object nor array', () => {
    expect(skimObject('[1]')).toBeUndefined();
    expect(skimArray('{}')).toBeUndefined();
  });
});

describe('lowering and raising', () => {
  it.each([
    [
      'a request',
      '{"jsonrpc":"2.0","id":1,"method":"elicitation/create","state":"s","params":{"message":"m"}}',
    ],
    ['a request without params', '{"jsonrpc":"2.0","id":1,"method":"roots/list","state":"s"}'],
    ['a result', '{"jsonrpc":"2.0","id":1,"result":{"action":"accept"},"state":"s"}'],
    ['an error', '{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m","data":{"a":1}},"state":"s"}'],
    ['an error without data', '{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"},"state":"s"}'],
  ])('Lowering and raising carries the state of %s past the SDK and returns it', (_what, text) => {
    const { state: _, ...bare } = JSON.parse(text);
    const { message, top } = take(text);
    expect(top).toEqual({ state: '"s"' });
    expect(message).toEqual(bare);
  });

  it('[R-03] Raising echoes the text itself: key order, 1.0, large numbers and escapes as received', () => {
    for (const state of [
      '1.0',
      '9007199254740993',
      '{"b":1, "a":[1e2]}',
      '"\\u0061\\/"',
      '"plain"',
      '-0',
      ' "x" '.trim(),
    ]) {
      const { top } = take(`{"jsonrpc":"2.0","id":7,"method":"ping","state":${state}}`);
      const answer: Response = { jsonrpc: '2.0', id: 7, result: {} };
      expect(restoreRaw(JSON.stringify(raise(answer, top ?? {})))).toBe(
        `{"jsonrpc":"2.0","id":7,"result":{},"state":${state}}`,
      );
    }
  });

  it('[R-03] Raising echoes any JSON text exactly', () => {
    const spaced = fc.json().map((json) => json.replaceAll(',', ' , '));
    fc.assert(
      fc.property(fc.oneof(fc.json(), spaced), (state) => {
        const { top } = take(`{"jsonrpc":"2.0","id":7,"method":"ping","state":${state}}`);
        const printed = restoreRaw(
          JSON.stringify(raise({ jsonrpc: '2.0', id: 7, result: {} } as Response, top ?? {})),
        );
        expect(printed).toBe(`{"jsonrpc":"2.0","id":7,"result":{},"state":${state}}`);
      }),
    );
  });

  it('[R-04] Null and the empty string are valid state', () => {
    expect(take('{"jsonrpc":"2.0","id":1,"method":"ping","state":null}').top).toEqual({ state: 'null' });
    expect(take('{"jsonrpc":"2.0","id":1,"method":"ping","state":""}').top).toEqual({ state: '""' });
    expect(take('{"jsonrpc":"2.0","id":1,"method":"ping","state" \n: 1}').top).toEqual({ state: '1' });
    expect(take('{"jsonrpc":"2.0","id":1,"method":"ping"}').top).toBeUndefined();
  });

  it('Lowering leaves every other message unchanged', () => {
    for (const text of [
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/session":{"sessionId":"a","state":"b"}}}}',
      '{"jsonrpc":"2.0","id":1, "result": {"state":1.0}}',
      '[1, 2]',
      '"state"',
    ]) {
      expect(lowerText(text)).toBe(text);
    }
  });

  it('Lowering ignores a carrier that a peer has forged', () => {
    const forged = {
      jsonrpc: '2.0',
      id: 1,
      method: 'ping',
      params: { _meta: { 'dev.valise/top': { state: '"forged"' } } },
    };
    expect(takeTop(forged as Message).top).toBeUndefined();
  });

  it('Lowering applies to each message of a batch', () => {
    const [first] = lowerObject([{ jsonrpc: '2.0', id: 1, method: 'ping', state: 's' }]) as Message[];
    expect(takeTop(first as Message).top).toEqual({ state: '"s"' });
  });

  it('A raised message can be read before it becomes text', () => {
    const raised = raise(
      { jsonrpc: '2.0', id: 1, result: {} } as Response,
      { dependent_requests: '{"requests":[]}' },
      { without: 'result' },
    );
    expect(JSON.parse(JSON.stringify(raised))).toEqual({
      jsonrpc: '2.0',
      id: 1,
      dependent_requests: { requests: [] },
    });
    expect(takeTop(raised).top).toEqual({ dependent_requests: '{"requests":[]}' });
  });

  it('A raised message shows no extra keys before it is printed', () => {
    expect(Object.keys(raise({ jsonrpc: '2.0', id: 1, result: {} } as Response, { state: '1' }))).toEqual([
      'jsonrpc',
      'id',
      'result',
    ]);
  });
});
