import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ValiseError } from 'mcp-valise/client';
import { isObject, PAGE_HEADERS } from 'mcp-valise/internal';
import { errorBody } from '../output/exit.ts';
import type { Feed } from './feed.ts';
import { type Asked, Guard, type Refusal } from './guard.ts';
import { assetOf } from './page.ts';
import type { Input, Routes } from './routes.ts';

/** Settings of {@link startConsole}. */
export interface ConsoleSettings {
  /** Returns the routes as they are now. */
  routes(): Routes;
  readonly feed: Feed;
  /** Whether routes that write may run. */
  readonly write: boolean;
  /** Port on 127.0.0.1; 0 takes a free one. */
  readonly port: number;
}

/** A running console. */
export interface RunningConsole {
  /** The address to open, with a token that works once. */
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

/** The largest body of a request: a jar to import. */
const MOST_BODY = 16 * 1024 * 1024;
/** How many pages may listen at a time. */
const MOST_STREAMS = 16;
/** How often a silent stream gets a comment, so that a page that has gone is noticed, in milliseconds. */
const BEAT = 15_000;

/** Starts the console's server on 127.0.0.1. */
export async function startConsole({ routes, feed, write, port }: ConsoleSettings): Promise<RunningConsole> {
  let guard: Guard | undefined;
  const streams = new Set<ServerResponse>();

  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const asked = askedIn(incoming);
    if (!guard || !asked) return refuse(response, { status: 400, what: 'This is not a request.' });
    const foreign = guard.foreign(asked);
    if (foreign) return refuse(response, foreign);
    const cookie = asked.path === '/' ? guard.exchange(asked) : undefined;
    if (cookie !== undefined) return enter(response, cookie);
    const stranger = guard.stranger(asked);
    if (stranger) return refuse(response, stranger);
    if (asked.path === '/api/live') return stream(response);
    if (asked.path.startsWith('/api/')) return answer(asked, incoming, response);
    if (asked.method !== 'GET' && asked.method !== 'HEAD')
      return refuse(response, { status: 400, what: 'Pages are only read.' });
    // A reload of the link, after its token was exchanged, leads to the page too.
    const asset = await assetOf(asked.path);
    if (!asset) return send(response, 404, 'text/plain; charset=utf-8', 'There is no such page.\n');
    send(response, 200, asset.type, asset.content);
  };

  const answer = async (asked: Asked, incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const name = `${asked.method} ${asked.path.slice('/api/'.length)}`;
    const known = routes();
    const route = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!route) return sendJson(response, 404, { error: { code: 'no-such-route', message: 'Not found.' } });
    try {
      if (route.writes && !write) throw readOnly();
      const input = asked.method === 'GET' ? Object.fromEntries(asked.query) : await bodyOf(incoming);
      sendJson(response, 200, (await route.run(input)) ?? {});
    } catch (error) {
      const body = errorBody(error);
      sendJson(response, body['code'] === 'access-denied' ? 403 : 400, { error: body });
    }
  };

  const stream = (response: ServerResponse): void => {
    if (streams.size >= MOST_STREAMS) {
      refuse(response, { status: 403, what: 'Too many pages of this console are open.' });
      return;
    }
    response.writeHead(200, { ...PAGE_HEADERS, 'content-type': 'text/event-stream' });
    response.write(': open\n\n');
    const forget = feed.listen((news) => response.write(`data: ${JSON.stringify(news)}\n\n`));
    const beat = setInterval(() => response.write(': still here\n\n'), BEAT).unref();
    streams.add(response);
    response.once('close', () => {
      clearInterval(beat);
      forget();
      streams.delete(response);
    });
  };

  const server = createServer((incoming, response) => {
    serve(incoming, response).catch(() => response.destroy());
  });
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw new ValiseError('invalid-argument', `The port ${port} of this machine cannot be used.`, {
      next: 'Choose another one with --port, or leave it out for a free one.',
      cause,
    });
  }
  const taken = (server.address() as AddressInfo).port;
  guard = new Guard(taken);
  return {
    url: guard.url,
    port: taken,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function askedIn({ method = 'GET', url = '/', headers }: IncomingMessage): Asked | undefined {
  // Two slashes at the beginning would name another host.
  if (!/^\/(?!\/)/.test(url) || !URL.canParse(url, 'http://console.invalid')) return undefined;
  const { pathname, searchParams } = new URL(url, 'http://console.invalid');
  return { method, path: pathname, query: searchParams, headers };
}

/**
 * Sets the cookie with a page that then opens the console by itself. A redirect would belong to whoever opened the link,
 * and a strict cookie would not be sent with it.
 */
function enter(response: ServerResponse, cookie: string): void {
  response.setHeader('set-cookie', cookie);
  const page =
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Valise</title><link rel="icon" href="data:,"><meta http-equiv="refresh" content="0;url=/"><p>Opening the console…</p></html>\n';
  send(response, 200, 'text/html; charset=utf-8', page);
}

function refuse(response: ServerResponse, { status, what }: Refusal): void {
  send(response, status, 'text/plain; charset=utf-8', `${what}\n`);
}

function sendJson(response: ServerResponse, status: number, value: unknown): void {
  send(response, status, 'application/json; charset=utf-8', JSON.stringify(value));
}

function send(response: ServerResponse, status: number, type: string, content: string | Buffer): void {
  response.writeHead(status, { ...PAGE_HEADERS, 'content-type': type }).end(content);
}

/** Reads a JSON object. A form of another site cannot send this type. */
async function bodyOf(incoming: IncomingMessage): Promise<Input> {
  if (!/^application\/json\b/.test(incoming.headers['content-type'] ?? '')) throw badBody('is not JSON');
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MOST_BODY) throw badBody(`is larger than ${MOST_BODY} bytes`);
    chunks.push(chunk);
  }
  try {
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    if (isObject(body)) return body;
  } catch {
    // The parser's message would quote the body.
  }
  throw badBody('is not a JSON object');
}

function badBody(how: string): ValiseError {
  return new ValiseError('invalid-argument', `The body of the request ${how}.`, { next: 'Reload the page.' });
}

function readOnly(): ValiseError {
  return new ValiseError('access-denied', 'This console only reads.', {
    next: 'End it and start it again with --write.',
  });
}
