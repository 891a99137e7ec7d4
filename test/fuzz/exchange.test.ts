import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, it } from 'vitest';
import { agent, exchange } from './exchange.ts';

afterAll(() => agent.destroy());

it('The fuzzing client does not send a request again that it has stopped waiting for', async () => {
  const seen: (string | undefined)[] = [];
  const http = createServer((request, response) => {
    seen.push(request.url);
    if (request.url === '/quick') response.end();
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  const { port } = http.address() as AddressInfo;
  try {
    await exchange(port, 'GET', '/quick', {}, undefined, false);
    // On the same connection: only a reused one makes the client try again.
    const arrived = once(http, 'request');
    const answer = exchange(port, 'GET', '/silent', {}, undefined, true);
    const [, response] = (await arrived) as [unknown, NodeJS.EventEmitter];
    await Promise.all([answer, once(response, 'close')]);
    await exchange(port, 'GET', '/quick', {}, undefined, false);
    expect(await answer).toMatchObject({ type: 'none' });
    expect(seen).toEqual(['/quick', '/silent', '/quick']);
  } finally {
    http.closeAllConnections();
    http.close();
  }
});
