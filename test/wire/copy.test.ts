import { setFlagsFromString } from 'node:v8';
import { describe, expect, it } from 'vitest';
import { steady, withMeta, withParams } from '../../src/wire/copy.ts';
import type { Params, Request } from '../../src/wire/index.ts';

const request = (params?: Params): Request => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'ping',
  ...(params && { params }),
});

describe('copies of messages', () => {
  it('have what the message has, and leave it as it is', () => {
    const given = Object.freeze(request(Object.freeze({ a: 1, _meta: Object.freeze({ old: true }) })));
    const before = JSON.stringify(given);
    expect(steady(given)).toEqual(given);
    expect(steady(given)).not.toBe(given);
    expect(withParams(given, { b: 2 })).toEqual({ ...given, params: { b: 2 } });
    expect(withMeta(given.params, { new: true })).toEqual({ a: 1, _meta: { new: true } });
    expect(JSON.stringify(given)).toBe(before);
  });

  it('get what the message does not have yet', () => {
    expect(withParams(request(), { b: 2 })).toEqual(request({ b: 2 }));
    expect(withMeta({ a: 1 }, { new: true })).toEqual({ a: 1, _meta: { new: true } });
    expect(withMeta(undefined, { new: true })).toEqual({ _meta: { new: true } });
  });

  it('keep a name like __proto__ a name like any other', () => {
    const params = JSON.parse('{"__proto__":{"polluted":true},"a":1}') as Params;
    const copy = withMeta(params, { new: true });
    expect(JSON.parse(JSON.stringify(copy))).toEqual(
      JSON.parse('{"__proto__":{"polluted":true},"a":1,"_meta":{"new":true}}'),
    );
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
    expect('polluted' in copy).toBe(false);
  });

  it('are of one kind to the engine, also where the message was made in a way that gives each its own', () => {
    setFlagsFromString('--allow-natives-syntax');
    const isSame = new Function('a', 'b', 'return %HaveSameMap(a, b)') as (a: object, b: object) => boolean;
    const asSdk = (own: object, id: number) =>
      ({ ...own, jsonrpc: '2.0' as const, id }) as unknown as Request;
    const made = (id: number) => {
      const message = steady(
        asSdk({ method: 'tools/call', params: { name: 'echo', arguments: { id } } }, id),
      );
      const params = withMeta(message.params, { id });
      return [message, params, withParams(message, params)];
    };
    let before = made(0);
    for (let id = 1; id < 200; id++) {
      const next = made(id);
      // The first few may differ: the engine learns how an object grows.
      if (id > 100)
        expect(next.map((each, at) => isSame(each, before[at] as object))).toEqual([true, true, true]);
      before = next;
    }
  });
});
