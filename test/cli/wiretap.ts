import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';

/** Stands in front of a server and notes which requests of MCP it took. */
export interface Wiretap {
  /** `--resolve` and its value, which lead a command here. */
  readonly resolve: readonly string[];
  /** The methods, in order; those that the server did not let in are left out. */
  readonly taken: readonly string[];
}

/** Makes one for the server at `url`; it ends with the test. */
export async function wiretap(url: string): Promise<Wiretap> {
  const { hostname, port } = new URL(url);
  const taken: string[] = [];
  const tap = createServer(async (incoming, response) => {
    const { method, url: path, headers } = incoming;
    const body = await text(incoming);
    const onwards = request({ host: hostname, port, method, path, headers }, (answer) => {
      if (answer.statusCode !== 401) taken.push(...methodsIn(body));
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onwards.on('error', () => response.destroy());
    response.on('close', () => onwards.destroy());
    onwards.end(body);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => {
    tap.closeAllConnections();
    tap.close();
  });
  await once(tap, 'listening');
  const own = (tap.address() as AddressInfo).port;
  return { resolve: ['--resolve', `${hostname}:${port}:127.0.0.1:${own}`], taken };
}

function methodsIn(body: string): string[] {
  try {
    const { method } = JSON.parse(body) as { readonly method?: unknown };
    return typeof method === 'string' ? [method] : [];
  } catch {
    return [];
  }
}
