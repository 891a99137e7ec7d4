import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { StringDecoder } from 'node:string_decoder';

/** A message that passed through the front. */
export interface Passing {
  readonly from: 'client' | 'server';
  /** Index of the instance that received or sent it, in the list of targets at the time of the request. */
  readonly target: number;
  /** The address of that instance. */
  readonly url: URL;
  /** Number of the HTTP request; messages in its response have the same number. */
  readonly exchange: number;
  /** The message as it was in the body or in an event of the stream. */
  readonly message: unknown;
  /** Headers of the HTTP request or of its response. */
  readonly headers: IncomingHttpHeaders;
  /** Resolves when the exchange is over: the response is complete or was aborted. */
  readonly over: Promise<void>;
}

/** Settings of {@link startLoadBalancer}. */
export interface LoadBalancerOptions {
  /** Addresses of the instances. A function is called for each request, if instances change, and may wait for one. */
  readonly targets: readonly URL[] | (() => readonly URL[] | Promise<readonly URL[]>);
  /** Port on 127.0.0.1; 0, the default, takes a free one. */
  readonly port?: number;
  /** Receives each JSON-RPC message in both directions. Without it, bodies are not parsed. */
  readonly observe?: (passing: Passing) => void;
}

/** A running front. */
export interface Front {
  readonly port: number;
  /** Closes the front and all connections through it. */
  close(): Promise<void>;
}

/**
 * Starts a small round-robin balancer on this machine, for experiments. Each request goes to the next instance; bodies
 * and event streams pass through as they arrive. An instance that refuses the connection is skipped. A request that an
 * instance may have seen is never sent again.
 *
 * @example
 * ```ts
 * const front = await startLoadBalancer({ targets: [new URL('http://127.0.0.1:4001'), new URL('http://127.0.0.1:4002')] });
 * ```
 */
export async function startLoadBalancer({ targets, port = 0, observe }: LoadBalancerOptions): Promise<Front> {
  let turn = 0;
  let exchanges = 0;
  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const exchange = ++exchanges;
    const first = turn++;
    const now = typeof targets === 'function' ? await targets() : targets;
    await relay({ targets: now, first, exchange, observe }, incoming, response);
  };
  const server = createServer((incoming, response) => {
    serve(incoming, response).catch(() => response.destroy());
  });
  // A stream may stay open and silent for as long as both ends want.
  server.requestTimeout = 0;
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

interface Relay {
  readonly targets: readonly URL[];
  readonly first: number;
  readonly exchange: number;
  readonly observe: LoadBalancerOptions['observe'];
}

async function relay(
  { targets, first, exchange, observe }: Relay,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const over = new Promise<void>((resolve) => response.once('close', resolve));
  for (let tried = 0; tried < targets.length; tried++) {
    const at = (first + tried) % targets.length;
    const target = targets[at];
    if (!target) continue;
    const see =
      observe &&
      ((from: Passing['from'], message: unknown, headers: IncomingHttpHeaders) =>
        observe({ from, target: at, url: target, exchange, message, headers, over }));
    if ((await passOn(target, incoming, response, see)) !== 'refused') return;
  }
  response.writeHead(502, { 'content-type': 'text/plain' }).end('No instance is listening.\n');
}

type See = (from: Passing['from'], message: unknown, headers: IncomingHttpHeaders) => void;

/** Sends one request to one instance. No part of the body is sent or lost before the connection is established. */
function passOn(
  target: URL,
  incoming: IncomingMessage,
  response: ServerResponse,
  see: See | undefined,
): Promise<'refused' | 'done'> {
  return new Promise((resolve) => {
    let isConnected = false;
    const outgoing = request({
      host: target.hostname,
      port: target.port,
      method: incoming.method,
      path: incoming.url,
      headers: endToEnd(incoming.headers),
      // On a kept-alive connection, a dead instance would look like one that may have seen the request.
      agent: false,
    });
    const abandon = (): void => void outgoing.destroy();
    response.once('close', abandon);
    outgoing.once('socket', (socket) =>
      socket.once('connect', () => {
        isConnected = true;
        if (see) watch(incoming, (message) => see('client', message, incoming.headers));
        incoming.pipe(outgoing);
      }),
    );
    outgoing.once('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.statusMessage, endToEnd(answer.headers));
      response.flushHeaders();
      if (see) watch(answer, (message) => see('server', message, answer.headers));
      answer.pipe(response);
      answer.once('error', () => response.destroy());
      answer.once('close', () => resolve('done'));
    });
    outgoing.once('error', (error: NodeJS.ErrnoException) => {
      response.off('close', abandon);
      if (!isConnected && error.code === 'ECONNREFUSED') {
        resolve('refused');
        return;
      }
      if (response.headersSent) response.destroy();
      else response.writeHead(502, { 'content-type': 'text/plain' }).end('The instance broke off.\n');
      resolve('done');
    });
  });
}

const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const passed = { ...headers };
  for (const name of HOP_BY_HOP) delete passed[name];
  return passed;
}

function watch(body: IncomingMessage, see: (message: unknown) => void): void {
  const reader = messageReader(body.headers['content-type'], see);
  body.on('data', reader.take);
  body.once('end', reader.end);
}

/** Reads the messages in a body while it streams through. */
export interface MessageReader {
  readonly take: (chunk: Buffer) => void;
  readonly end: () => void;
}

const BLANK_LINE = /\r\n\r\n|\n\n|\r\r/;

/** Finds the JSON messages in a body: one message or a batch in JSON, or one per event of an event stream. */
export function messageReader(type: string | undefined, see: (message: unknown) => void): MessageReader {
  const decoder = new StringDecoder('utf8');
  const isStream = type?.startsWith('text/event-stream') === true;
  let text = '';
  const takeEvents = (): void => {
    const events = text.split(BLANK_LINE);
    text = events.pop() ?? '';
    for (const event of events) readJson(dataOf(event), see);
  };
  return {
    take(chunk) {
      text += decoder.write(chunk);
      if (isStream) takeEvents();
    },
    end() {
      text += decoder.end();
      readJson(isStream ? dataOf(text) : text, see);
    },
  };
}

function dataOf(event: string): string {
  return event
    .split(/\r\n|\n|\r/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length).replace(/^ /, ''))
    .join('\n');
}

function readJson(text: string, see: (message: unknown) => void): void {
  if (text === '') return;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // This is not a message; the body is passed on anyway.
    return;
  }
  for (const message of Array.isArray(value) ? value : [value]) see(message);
}
