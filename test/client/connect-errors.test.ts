import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { openValise, ValiseError } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { askable } from '../e2e/rounds-stage.ts';

const HOSTS = [
  { client: 'v1', era: 'legacy' },
  { client: 'v2', era: 'legacy' },
  { client: 'v2', era: 'modern' },
] as const;

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** A server that answers every request with this status. */
async function answering(status: number): Promise<URL> {
  const server = createServer((_request, response) => response.writeHead(status).end());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.push(() => server.close());
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp?key=hidden`);
}

describe.each(HOSTS)('valise.connect() with a $client client, $era', ({ client, era }) => {
  const failure = async (url: URL, options: object = {}): Promise<ValiseError> => {
    const valise = await openValise({ store: memoryStore() });
    ends.push(() => valise.close());
    const host = askable(client, era, () => ({ action: 'cancel' }));
    const error = await valise.connect(host, url, options).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ValiseError);
    return error as ValiseError;
  };

  it('connect() names the server that refuses connections, the reason and what to check', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const error = await failure(new URL(`http://127.0.0.1:${port}/mcp?key=hidden`));
    expect(error.code).toBe('server-unreachable');
    expect(error.message).toBe(
      `The server http://127.0.0.1:${port}/mcp?key=… cannot be reached: connect ECONNREFUSED 127.0.0.1:${port}. Check that it is running, and that the URL is right.`,
    );
    expect(error.cause).toBeInstanceOf(Error);
  });

  it('connect() says that a server requires a sign-in, and how to provide one', async () => {
    const url = await answering(401);
    const error = await failure(url);
    expect(error.code).toBe('sign-in-required');
    expect(error.message).toBe(
      `The server http://127.0.0.1:${url.port}/mcp?key=… requires a sign-in (HTTP 401). Pass the option auth: { redirect } to connect, or a valid Authorization header.`,
    );
    expect(error.cause).toBeInstanceOf(Error);
  });

  it('connect() leaves other errors unchanged', async () => {
    const url = await answering(500);
    const valise = await openValise({ store: memoryStore() });
    ends.push(() => valise.close());
    const host = askable(client, era, () => ({ action: 'cancel' }));
    const error = await valise.connect(host, url).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(ValiseError);
  });
});
