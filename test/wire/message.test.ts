import { describe, expect, it } from 'vitest';
import {
  isErrorResponse,
  isNotification,
  isRequest,
  isResponse,
  isResultResponse,
} from '../../src/wire/index.ts';

const request = { jsonrpc: '2.0', id: 0, method: 'ping' };
const notification = { jsonrpc: '2.0', method: 'notifications/initialized' };
const result = { jsonrpc: '2.0', id: 'a', result: {} };
const error = { jsonrpc: '2.0', id: 1, error: { code: -32601, message: 'Method not found' } };
const unreadable = { jsonrpc: '2.0', id: null, error: { code: -32700, message: 'Parse error' } };

describe('the kind of a message', () => {
  it('Every message has exactly one kind', () => {
    const kinds = (message: unknown) => [isRequest, isNotification, isResponse].map((is) => is(message));
    expect(kinds(request)).toEqual([true, false, false]);
    expect(kinds(notification)).toEqual([false, true, false]);
    expect(kinds(result)).toEqual([false, false, true]);
    expect(kinds(error)).toEqual([false, false, true]);
    expect(kinds(unreadable)).toEqual([false, false, true]);
    for (const other of [null, undefined, 1, 'x', [], {}, [request], { id: 1 }, { result: {} }]) {
      expect(kinds(other)).toEqual([false, false, false]);
    }
  });

  it('Success and error responses are distinct', () => {
    expect(isResultResponse(result)).toBe(true);
    expect(isResultResponse(error)).toBe(false);
    expect(isErrorResponse(error)).toBe(true);
    expect(isErrorResponse(result)).toBe(false);
  });
});
