import { getEventListeners } from 'node:events';
import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { edgeFetch } from '../../src/edge/fetch.ts';
import { endServers, listen } from '../server/http-stage.ts';

afterEach(endServers);

const json = (response: ServerResponse): void => {
  response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
};

describe('the signal of a transport, over the HTTP edge', () => {
  it('Requests add no listeners to the signal of the transport', async () => {
    const url = await listen((_, response) => json(response));
    const { signal } = new AbortController();
    const fetch = edgeFetch();
    for (let at = 0; at < 100; at++) await (await fetch(url, { signal })).json();
    // One of the first request, which may be all that it is for, and one that tells the others.
    expect(getEventListeners(signal, 'abort').length).toBeLessThanOrEqual(2);
  });

  it.each(['before its answer', 'in its stream', 'in an answer of another kind'])(
    'The signal of the transport ends every request in progress with its reason: %s',
    async (where) => {
      const arrived: ServerResponse[] = [];
      const all = 70;
      const url = await listen((request, response) => {
        if (request.url === '/first') return json(response);
        if (where === 'in its stream')
          response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {}\n\n');
        if (where === 'in an answer of another kind')
          response.writeHead(500, { 'content-type': 'text/plain' }).write('It is');
        arrived.push(response);
        if (arrived.length === all) stop.abort(reason);
      });
      const stop = new AbortController();
      const reason = new Error('The transport is closed.');
      const fetch = edgeFetch();
      await (await fetch(new URL('/first', url), { signal: stop.signal })).json();
      const ended = Array.from({ length: all }, async () => {
        const response = await fetch(url, { signal: stop.signal });
        return new Response(response.body).text();
      });
      for (const { status, ...end } of await Promise.allSettled(ended))
        expect([status, end]).toEqual(['rejected', { reason }]);
    },
  );

  it('The signal of the transport ends a long stream after many other requests', async () => {
    const url = await listen((request, response) => {
      if (request.method === 'POST') return json(response);
      return void response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {}\n\n');
    });
    const stop = new AbortController();
    const fetch = edgeFetch();
    const post = async () => (await fetch(url, { method: 'POST', body: '{}', signal: stop.signal })).json();
    await post();
    const { body } = await fetch(url, { signal: stop.signal });
    const reader = body?.getReader();
    expect((await reader?.read())?.done).toBe(false);
    for (let at = 0; at < 100; at++) await post();
    const next = reader?.read();
    stop.abort(new Error('enough'));
    await expect(next).rejects.toThrow('enough');
  });

  it('The signal of the transport does not replace the signal of a request, and does not affect a late one', async () => {
    const seen: unknown[] = [];
    const fetch = edgeFetch(async (_, init) => {
      seen.push(init?.signal);
      init?.signal?.throwIfAborted();
      return new Response(null, { status: 202 });
    });
    const own = [new AbortController().signal, new AbortController().signal];
    for (const signal of own) await fetch('http://127.0.0.1/', { signal });
    expect(seen).toEqual(own);
    const stop = new AbortController();
    await fetch('http://127.0.0.1/', { signal: stop.signal });
    stop.abort(new Error('enough'));
    await expect(fetch('http://127.0.0.1/', { signal: stop.signal })).rejects.toThrow('enough');
  });
});
