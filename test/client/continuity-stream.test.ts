import { expect, it } from 'vitest';
import { composeFetch } from '../../src/client/connection/fetch.ts';
import { type SessionSeat, sessionHttp, watchStandalone } from '../../src/client/connection/stream.ts';

const seat: SessionSeat = {
  sessionId: 'one',
  lastEventId: 'event-7',
  ended() {},
  read() {},
  streamTaken() {},
};

it.each([
  [
    'names its place in a standalone stream that is opened without, as v1 does after a 401',
    {},
    'event-7',
    true,
  ],
  ['leaves alone where the stream of a call goes on', { 'last-event-id': 'event-3' }, 'event-3', false],
])('%s', async (_, headers, place, isStandalone) => {
  let sent: RequestInit = {};
  const base = async (_url: string | URL, init: RequestInit = {}) => {
    sent = init;
    return new Response(null);
  };
  await composeFetch([sessionHttp(seat)], base)('http://127.0.0.1/mcp', { method: 'GET', headers });
  expect(new Headers(sent.headers).get('last-event-id')).toBe(place);
  expect(watchStandalone(sent, seat) !== undefined).toBe(isStandalone);
});

it('names no place with what is no stream, or where nothing has been read', async () => {
  const named: (string | null)[] = [];
  const base = async (_url: string | URL, { headers }: RequestInit = {}) => {
    named.push(new Headers(headers).get('last-event-id'));
    return new Response(null);
  };
  await composeFetch([sessionHttp(seat)], base)('http://127.0.0.1/mcp', { method: 'POST' });
  await composeFetch([sessionHttp({ ...seat, lastEventId: undefined })], base)('http://127.0.0.1/mcp', {
    method: 'GET',
  });
  expect(named).toEqual([null, null]);
});
