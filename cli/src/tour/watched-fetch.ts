import type { FetchLike } from 'mcp-valise/internal';
import { messageReader } from '../examples/load-balancer.ts';
import { type Carried, fingerprintOf } from './carried.ts';
import { type Step, stepOf } from './step.ts';

/** The lane names of a client and its server. */
export interface Ends {
  readonly client: string;
  readonly server: string;
}

/** Returns a `fetch` that reports what it sends to a server and what comes back; secrets appear only as fingerprints. */
export function watchedFetch(
  endpoint: URL,
  { client, server }: Ends,
  see: (step: Step) => void,
  base: FetchLike = fetch,
): FetchLike {
  const there = { from: client, to: server };
  const back = { from: server, to: client };
  return async (input, init = {}) => {
    const url = new URL(input);
    const method = init.method ?? 'GET';
    const isMcp = url.pathname === endpoint.pathname;
    if (isMcp) {
      const reader = messageReader('application/json', (message) =>
        see(stepOf(there, message, besides(new Headers(init.headers)))),
      );
      if (typeof init.body === 'string') reader.take(Buffer.from(init.body));
      reader.end();
    } else see(bare(there, `${method} ${url.pathname}`));
    const response = await base(input, init);
    // A server that does not offer a standalone stream is not worth a step.
    if (!isMcp || (!response.ok && method === 'POST')) see(bare(back, `HTTP ${response.status}`));
    return isMcp && response.ok && response.body
      ? watched(response, (message) => see(stepOf(back, message)))
      : response;
  };
}

/** Returns a step for an HTTP exchange without its body, which must not be shown. */
function bare(ends: { readonly from: string; readonly to: string }, what: string): Step {
  return { ...ends, what, carried: [], message: { http: what } };
}

function besides(headers: Headers): Carried[] {
  const found: Carried[] = [];
  const session = headers.get('mcp-session-id');
  if (session !== null) found.push({ what: 'Mcp-Session-Id', value: session });
  const token = headers.get('authorization');
  if (token !== null) found.push({ what: 'Authorization', secret: fingerprintOf(token) });
  return found;
}

function watched(response: Response, see: (message: unknown) => void): Response {
  const reader = messageReader(response.headers.get('content-type') ?? undefined, see);
  const body = response.body?.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        reader.take(Buffer.from(chunk));
        controller.enqueue(chunk);
      },
      flush: reader.end,
    }),
  );
  return new Response(body ?? null, { status: response.status, headers: response.headers });
}
