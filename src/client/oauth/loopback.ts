import { timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ValiseError } from '../../errors.ts';

const PATH = '/callback';

/** A listener on this machine that a sign-in page sends the user back to. */
export interface Loopback {
  readonly url: string;
  readonly port: number;
  /** Resolves with the response to the sign-in with this `state`. Other requests are rejected and have no effect. */
  answer(state: string): Promise<URLSearchParams>;
  close(): void;
}

/** Listens on 127.0.0.1, on any free port if `port` is 0. */
export async function listenOnLoopback(port: number): Promise<Loopback> {
  let waiting: { readonly state: string; resolve(answer: URLSearchParams): void } | undefined;
  const server = createServer((request, response) => {
    const target = `${origin}${request.url}`;
    // Browsers send a path. Anything else, such as `*` or a full URL, does not come from a sign-in page.
    if (!request.url?.startsWith('/') || !URL.canParse(target))
      return say(response, 400, 'This is not a path.');
    const { host, pathname, searchParams } = new URL(target);
    // A page that reaches this listener under another host name is not the one that sent the user back.
    if (request.headers.host !== host || request.method !== 'GET' || pathname !== PATH)
      return say(response, 404, 'There is nothing here.');
    if (!waiting || !isSame(searchParams.get('state') ?? '', waiting.state))
      return say(response, 400, 'This is not the sign-in that was asked for. Start again in your program.');
    waiting.resolve(searchParams);
    waiting = undefined;
    say(
      response,
      200,
      searchParams.has('code')
        ? 'You are signed in. You can close this window.'
        : 'You are not signed in. You can close this window.',
    );
  });
  server.unref();
  const at = await listening(server, port);
  const origin = `http://127.0.0.1:${at}`;
  return {
    url: `${origin}${PATH}`,
    port: at,
    answer: (state) =>
      new Promise((resolve) => {
        waiting = { state, resolve };
      }),
    close() {
      server.close();
      server.closeIdleConnections();
    },
  };
}

async function listening(server: Server, port: number): Promise<number> {
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  } catch (cause) {
    throw new ValiseError(
      'sign-in-failed',
      `Port ${port} of 127.0.0.1 cannot be listened on for the sign-in.`,
      {
        next: 'Free it, or choose another one with the option port (--redirect-port).',
        cause,
      },
    );
  }
  return (server.address() as AddressInfo).port;
}

function say(response: ServerResponse, status: number, words: string): void {
  response
    .writeHead(status, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': "default-src 'none'",
      'referrer-policy': 'no-referrer',
      connection: 'close',
    })
    .end(`<!doctype html><title>Sign-in</title><p>${words}</p>\n`);
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
