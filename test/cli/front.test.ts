import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Passing, startLoadBalancer } from '../../cli/src/examples/load-balancer.ts';

async function instance(listener: RequestListener): Promise<URL> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

/** A port on which nobody listens. */
async function nobody(): Promise<URL> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return new URL(`http://127.0.0.1:${port}`);
}

async function front(targets: readonly URL[], observe?: (passing: Passing) => void) {
  const { port, close } = await startLoadBalancer({ targets, ...(observe && { observe }) });
  onTestFinished(close);
  return `http://127.0.0.1:${port}/mcp?x=1`;
}

const saying =
  (name: string): RequestListener =>
  async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ name, method: request.method, url: request.url, body }));
  };

describe('the round-robin front', () => {
  it('sends each request to the next instance, and skips one that listens no more', async () => {
    const url = await front([await instance(saying('a')), await nobody(), await instance(saying('c'))]);
    const names = [];
    for (let count = 0; count < 6; count++) {
      const answer = await fetch(url, { method: 'POST', body: `n${count}` });
      const said = (await answer.json()) as { name: string; body: string };
      expect(said).toMatchObject({ method: 'POST', url: '/mcp?x=1', body: `n${count}` });
      names.push(said.name);
    }
    expect(names).toEqual(['a', 'c', 'c', 'a', 'c', 'c']);
  });

  it('answers 502 if no instance listens', async () => {
    const url = await front([await nobody(), await nobody()]);
    expect((await fetch(url, { method: 'POST', body: '{}' })).status).toBe(502);
  });

  it('never sends a request again that an instance may have seen', async () => {
    let seen = 0;
    const dying = await instance((request) => {
      seen++;
      request.socket.destroy();
    });
    const url = await front([dying, await instance(() => seen++)]);
    expect((await fetch(url, { method: 'POST', body: '{}' })).status).toBe(502);
    expect(seen).toBe(1);
  });

  it('passes streams as they come, and shows what is in them', async () => {
    let go: () => void = () => {};
    const target = await instance((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('id: 1\ndata: {"first":"é"}\n\n');
      go = () => response.end('data: {"second":2}\n\n');
    });
    const seen: Passing[] = [];
    const url = await front([target], (passing) => seen.push(passing));
    const answer = await fetch(url, { method: 'POST', body: '{"asks":1}' });
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    const { value } = await reader.read();
    expect(Buffer.from(value ?? []).toString()).toContain('first');
    go();
    for (;;) if ((await reader.read()).done) break;
    expect(seen).toMatchObject([
      { from: 'client', target: 0, exchange: 1, message: { asks: 1 } },
      { from: 'server', target: 0, exchange: 1, message: { first: 'é' } },
      { from: 'server', target: 0, exchange: 1, message: { second: 2 } },
    ]);
  });

  it('lets go of an instance when the client has gone', async () => {
    let gone: Promise<unknown> = Promise.resolve();
    const target = await instance((request, response) => {
      gone = once(request.socket, 'close');
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    });
    const stop = new AbortController();
    await fetch(await front([target]), { signal: stop.signal });
    stop.abort();
    await gone;
  });
});
