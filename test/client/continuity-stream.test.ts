import { expect, it } from 'vitest';
import { Continuity } from '../../src/client/connection/continuity.ts';
import { composeFetch } from '../../src/client/connection/http.ts';
import type { Snapshot } from '../../src/client/connection/snapshot.ts';
import { SESSIONFUL } from '../../src/wire/codec.ts';

const SNAPSHOT: Snapshot = {
  codec: SESSIONFUL,
  protocolVersion: '2025-11-25',
  introduction: { protocolVersion: '2025-11-25', capabilities: {} },
  sessionId: 'one',
  savedAt: 0,
};

/** A connection that resumes a session, and the requests that reach its server. */
function resumed(snapshot: Snapshot) {
  const sent: Headers[] = [];
  const continuity = new Continuity({
    client: {},
    snapshots: undefined,
    from: snapshot,
    alone: (work) => work(),
    begun: async () => {},
    left: async () => {},
    warn() {},
    renewed() {},
  });
  const fetch = composeFetch([continuity.http], async (_, { headers } = {}) => {
    sent.push(new Headers(headers));
    return new Response('');
  });
  const place = async (init: RequestInit): Promise<string | null | undefined> => {
    await fetch('http://127.0.0.1/mcp', init);
    return sent.at(-1)?.get('last-event-id');
  };
  return { continuity, fetch, sent, place };
}

it.each([
  [
    'A standalone stream that is opened without a position continues after the last event',
    undefined,
    'event-7',
    true,
  ],
  ['A stream that resumes a call keeps its own position', 'event-3', 'event-3', false],
])('%s', async (_, from, place, isStandalone) => {
  const { continuity, place: placeOf } = resumed({ ...SNAPSHOT, lastEventId: 'event-7' });
  const headers = new Headers(from === undefined ? {} : { 'last-event-id': from });
  expect(await placeOf({ method: 'GET', headers })).toBe(place);
  expect(continuity.stream.watch({ method: 'GET', headers }, () => {}) !== undefined).toBe(isStandalone);
});

it('A POST and a stream without any read event have no position', async () => {
  const read = resumed({ ...SNAPSHOT, lastEventId: 'event-7' });
  expect(await read.place({ method: 'POST', body: '{}' })).toBeNull();
  expect(await resumed(SNAPSHOT).place({ method: 'GET' })).toBeNull();
});

it('A resumed session answers the introduction itself, and the server gets neither message', async () => {
  const { continuity, fetch, sent } = resumed(SNAPSHOT);
  const post = (message: object) =>
    fetch('http://127.0.0.1/mcp', { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
  const answer = await post({ id: 'a:0', method: 'initialize', params: {} });
  expect(answer.headers.get('mcp-session-id')).toBe('one');
  expect(await answer.json()).toEqual({ jsonrpc: '2.0', id: 'a:0', result: SNAPSHOT.introduction });
  expect((await post({ method: 'notifications/initialized' })).status).toBe(202);
  expect(sent).toEqual([]);
  await post({ id: 1, method: 'tools/call', params: { name: 'initialize' } });
  expect(sent.map((headers) => headers.get('mcp-session-id'))).toEqual(['one']);
  expect(continuity.state).toBe('resumed');
});
