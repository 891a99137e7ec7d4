import type { NamedServer } from '../client/identity/target.ts';
import type { ClientLike } from '../client/options.ts';
import type { ClientValise } from '../client/valise.ts';
import { ValiseError } from '../core/errors.ts';
import type { TransportLike } from '../core/instrument.ts';
import type { ServerLike } from '../server/sdk-server.ts';

/** Options of {@link connectInProcess}. */
export interface InProcessOptions {
  /**
   * The identity of the server. The jar and the sessions of a client belong to a server, so clients that pass the same
   * one find the same state.
   *
   * @defaultValue `{ command: 'in-process' }`
   */
  readonly server?: NamedServer;
}

/**
 * Connects a client to a server in the same process, with Valise on both ends and no socket in between. Accepts clients
 * and servers of either SDK major. They use protocol revisions up to 2025-11-25; for 2026-07-28, see
 * {@link handlerFetch}.
 *
 * @param valise - Valise of the client
 * @param client - a client that is not connected yet
 * @param server - a server on which Valise is installed, not connected yet
 *
 * @example
 * ```ts
 * const server = serverValise.install(new McpServer({ name: 'shop', version: '1.0.0' }));
 * await connectInProcess(await openValise({ store: 'memory:' }), client, server);
 * await client.callTool({ name: 'add_item', arguments: { item: 'book' } });
 * ```
 */
export async function connectInProcess(
  valise: ClientValise,
  client: ClientLike,
  server: ServerLike,
  options: InProcessOptions = {},
): Promise<void> {
  const [near, far] = linkedTransports();
  await server.connect(far);
  await valise.connect(client, near, { server: options.server ?? { command: 'in-process' } });
}

/**
 * Returns two transports that are connected to each other. Messages are copied as JSON, as on a wire. Closing one end
 * closes the other.
 *
 * @example
 * ```ts
 * const [near, far] = linkedTransports();
 * await server.connect(far);
 * await client.connect(near); // a client without Valise
 * ```
 */
export function linkedTransports(): [near: TransportLike, far: TransportLike] {
  const near = new LinkedTransport();
  const far = new LinkedTransport();
  near.other = far;
  far.other = near;
  return [near, far];
}

class LinkedTransport implements TransportLike {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: unknown) => void;
  other: LinkedTransport | undefined;

  async start(): Promise<void> {}

  async send(message: unknown): Promise<void> {
    const { other } = this;
    if (!other) {
      throw new ValiseError('not-connected', 'The transport is closed.', {
        next: 'Connect over a new pair of transports.',
      });
    }
    const text = JSON.stringify(message);
    queueMicrotask(() => other.onmessage?.(JSON.parse(text)));
  }

  async close(): Promise<void> {
    const { other } = this;
    if (!other) return;
    this.other = undefined;
    this.onclose?.();
    await other.close();
  }
}

/**
 * Returns a `fetch` that calls a web handler instead of the network, to test HTTP without a socket. Pass it to
 * `valise.connect(client, url, { fetch })`, or to an SDK's own transport. Aborting a request also ends the body of its response.
 *
 * @param handler - the function that handles a request, such as `valise.http(createMcpHandler(build))`
 *
 * @example
 * ```ts
 * const fetch = handlerFetch(serverValise.http(createMcpHandler(build)));
 * await valise.connect(client, valise.http('https://shop.example.com/mcp', { fetch }));
 * ```
 */
export function handlerFetch(
  handler: (request: Request) => Response | Promise<Response>,
): (url: string | URL, init?: RequestInit) => Promise<Response> {
  return async (url, init) => {
    const request = new Request(url, init);
    const { signal } = request;
    const aborted = new Promise<never>((_, reject) => {
      if (signal.aborted) reject(signal.reason);
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    const response = await Promise.race([aborted, Promise.resolve(handler(request))]);
    // The caller already has the response, so from now on an abort affects only its body.
    aborted.catch(() => undefined);
    const { body, status, statusText, headers } = response;
    if (!body) return response;
    return new Response(body.pipeThrough(new TransformStream(), { signal }), { status, statusText, headers });
  };
}
