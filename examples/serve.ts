/**
 * How every example is served: over stdio or HTTP, on either major of the SDK, to clients of both eras.
 * Copy it beside an example, or read in it how Valise fits into a server of your own.
 */
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pathToFileURL } from 'node:url';
import { type ParseArgsConfig, parseArgs } from 'node:util';
import type { McpServer } from '@modelcontextprotocol/server';
import type { ServerValise, ServerValiseOptions } from 'mcp-valise/server';
import { type Endpoint, httpV1, httpV2, pathOf } from './serve-http.ts';

/** What an example is: a name, options of its own, and a way to build it. */
export interface Example {
  readonly name: string;
  /** Options besides the common ones, as `util.parseArgs` takes them. */
  readonly options?: ParseArgsConfig['options'];
  /** Builds the example; called once per process. */
  build(kit: Kit): Built | Promise<Built>;
}

/** Passed to each example. */
export interface Kit {
  readonly sdk: 'v1' | 'v2';
  /** The class of the SDK major asked for. The examples use only what both majors share. */
  readonly McpServer: typeof McpServer;
  /** Options of the command line, to be spread into those of `createValise`. */
  readonly options: Pick<ServerValiseOptions, 'store' | 'keys' | 'principal' | 'events'>;
  /** The example's own options of the command line. */
  readonly flags: Readonly<Record<string, unknown>>;
}

/** A built example. */
export interface Built {
  readonly valise: Pick<ServerValise, 'close' | 'http' | 'stdin'>;
  /** Makes a server; called once per connection, or once per request where HTTP is served without sessions. */
  server(): McpServer;
  /** Serves `/mcp`, and every other path, in place of the common way, for an example that needs its own. */
  readonly http?: Endpoint;
}

/** What an example may get besides the words of the command line. */
export interface Given {
  readonly keys?: ServerValiseOptions['keys'];
  /** Puts what a warning says to do next into other words. */
  readonly inOtherWords?: (next: string) => string;
}

const COMMON = {
  stdio: { type: 'boolean' },
  http: { type: 'string' },
  sdk: { type: 'string', default: 'v2' },
  store: { type: 'string' },
  stateless: { type: 'boolean' },
} as const;

/**
 * Serves an example as the command line asks, until its input ends (stdio) or until SIGTERM or SIGINT.
 *
 *     --stdio | --http PORT   one of them; port 0 takes a free one
 *     --sdk v1|v2             the SDK's major; v2 speaks both eras
 *     --store URL             where state of clients that carry none is kept
 *     --stateless             over HTTP, without sessions for clients of the older era
 *
 * Keys come from the environment variable VALISE_KEYS, unless they are given.
 */
export async function serve(example: Example, args: readonly string[], given: Given = {}): Promise<void> {
  const { keys, inOtherWords = (next) => next } = given;
  const { values } = parseArgs({ args: [...args], options: { ...example.options, ...COMMON } });
  const { stdio, http, sdk, store, stateless } = values as { [Name in keyof typeof COMMON]?: never };
  if (sdk !== 'v1' && sdk !== 'v2') throw new Error(`--sdk takes v1 or v2, not ${String(sdk)}.`);
  if (Boolean(stdio) === (http !== undefined)) throw new Error('Give either --stdio or --http PORT.');
  const port = Number(http ?? 0);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new Error(`--http takes a port, not ${String(http)}.`);

  const built = await example.build({
    sdk,
    McpServer: await loadMcpServer(sdk),
    options: {
      store,
      keys,
      events: {
        warning: ({ what, next }) => console.error(`${example.name}: ${what} ${inOtherWords(next)}`),
        rejected: ({ what, reason }) => console.error(`${example.name}: ${what} was not taken: ${reason}`),
      },
    },
    flags: values,
  });
  const stop = stdio
    ? await overStdio(sdk, built)
    : await overHttp(sdk, built, { port, stateless: Boolean(stateless) });
  await toldToStop(Boolean(stdio));
  await stop();
  await built.valise.close();
  // Whoever sent a signal may leave the input open, which would keep the process.
  if (stdio) process.stdin.destroy();
}

/** Serves the example where its file is the program that runs; for the last line of an example. */
export async function serveIfMain(module: string, example: Example): Promise<void> {
  if (process.argv[1] === undefined || pathToFileURL(realpathSync(process.argv[1])).href !== module) return;
  try {
    await serve(example, process.argv.slice(2));
    process.exit(0);
  } catch (error) {
    console.error(`${example.name}: ${(error as Error).message}`);
    process.exit(1);
  }
}

async function loadMcpServer(sdk: 'v1' | 'v2'): Promise<typeof McpServer> {
  if (sdk === 'v2') return (await import('@modelcontextprotocol/server')).McpServer;
  const { McpServer: McpServerV1 } = await import('@modelcontextprotocol/sdk/server/mcp.js');
  return McpServerV1 as unknown as typeof McpServer;
}

async function overStdio(sdk: 'v1' | 'v2', { valise, server }: Built): Promise<() => Promise<void>> {
  if (sdk === 'v2') {
    const { serveStdio, StdioServerTransport } = await import('@modelcontextprotocol/server/stdio');
    const handle = serveStdio(server, { transport: new StdioServerTransport(valise.stdin()) });
    return () => handle.close();
  }
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  const connected = server();
  await connected.connect(new StdioServerTransport(valise.stdin()));
  return () => connected.close();
}

async function overHttp(
  sdk: 'v1' | 'v2',
  { valise, server, http }: Built,
  { port, stateless }: { readonly port: number; readonly stateless: boolean },
): Promise<() => Promise<void>> {
  const endpoint = http ?? (await (sdk === 'v2' ? httpV2 : httpV1)(server, stateless));
  // Answers find their call again, also later, and without sessions of the transport on any instance.
  const answer = http ? endpoint.answer : valise.http(endpoint.answer);
  const listener = createServer((request, response) => {
    const path = pathOf(request);
    // A page in a browser must not reach a server on this machine; other programs send no Origin.
    if (!isLocal(request.headers.origin)) response.writeHead(403).end();
    else if (path === undefined) response.writeHead(400).end();
    else if (!http && path !== '/mcp') response.writeHead(404).end();
    else answer(request, response).catch(() => response.destroy());
  });
  listener.listen(port, '127.0.0.1');
  await once(listener, 'listening');
  console.log(`listening on http://127.0.0.1:${(listener.address() as AddressInfo).port}/mcp`);
  return async () => {
    listener.close();
    await endpoint.close();
    listener.closeAllConnections();
  };
}

function isLocal(origin: string | undefined): boolean {
  return origin === undefined || /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.test(origin);
}

async function toldToStop(whenInputEnds: boolean): Promise<void> {
  await new Promise<void>((resolve) => {
    process.once('SIGTERM', () => resolve());
    process.once('SIGINT', () => resolve());
    if (whenInputEnds) process.stdin.once('end', () => resolve()).once('close', () => resolve());
  });
}
