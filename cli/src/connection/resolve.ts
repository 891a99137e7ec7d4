import http from 'node:http';
import https from 'node:https';
import { isIP, isIPv6, type LookupFunction } from 'node:net';
import { Readable } from 'node:stream';
import { domainToASCII } from 'node:url';
import type { FetchLike } from 'mcp-valise/internal';
import { CommandError } from '../errors.ts';
import { remark } from '../output/output.ts';

/** One `--resolve HOST:PORT:ADDRESS[,ADDRESS][:PORT]`, as in curl; the host `*` matches any host. */
export interface Resolution {
  readonly host: string;
  readonly port: number;
  /** Tried in order. */
  readonly addresses: readonly string[];
  readonly toPort: number;
}

/**
 * Parses one `--resolve` value. A leading plus, with which curl lets the entry expire, is accepted and ignored, because no
 * run is long enough.
 */
export function parseResolution(text: string): Resolution {
  const [, name = '', from = '', rest = ''] = /^\+?(\[[^\]]+\]|[^:[\]+]+):(\d{1,5}):(.+)$/.exec(text) ?? [];
  const [, list = rest, to = from] = isAddress(rest.split(',').at(-1) ?? '')
    ? []
    : (/^(.+):(\d{1,5})$/.exec(rest) ?? []);
  const host = withoutDot(domainToASCII(name) || name.toLowerCase());
  const addresses = list.split(',');
  if (host === '' || !addresses.every(isAddress)) {
    throw new CommandError('bad-resolve', `"${text}" is not HOST:PORT:ADDRESS[,ADDRESS][:PORT].`, {
      next: 'Write for example shop.example.com:443:127.0.0.1:8080.',
    });
  }
  return {
    host,
    port: portOf(from, text),
    addresses: addresses.map((address) => address.replace(/^\[|\]$/g, '')),
    toPort: portOf(to, text),
  };
}

/** Adds an entry. As in curl, the last one for a host and port wins. */
export function withResolution(before: readonly Resolution[], last: Resolution): Resolution[] {
  return [...before.filter(({ host, port }) => host !== last.host || port !== last.port), last];
}

/** Formats an entry as {@link parseResolution} reads it. */
export function resolutionText({ host, port, addresses, toPort }: Resolution): string {
  const list = addresses.map((address) => (address.includes(':') ? `[${address}]` : address));
  return `${host}:${port}:${list.join(',')}:${toPort}`;
}

/** Whether the text is an IP address; IPv6 may be in brackets. */
function isAddress(text: string): boolean {
  return isIP(text) !== 0 || (/^\[.*\]$/.test(text) && isIPv6(text.slice(1, -1)));
}

/** Removes the final dot, with which a name is the same name. */
function withoutDot(host: string): string {
  return host.replace(/\.$/, '');
}

function portOf(digits: string, text: string): number {
  const port = Number(digits);
  if (port >= 1 && port <= 65_535) return port;
  throw new CommandError('bad-resolve', `${digits} in "${text}" is not a port.`, {
    next: 'Ports go from 1 to 65535.',
  });
}

const used = new WeakSet<Resolution>();

/** Reports which entries no request used: most likely their host or port is not that of the target. */
export function tellUnused(resolutions: readonly Resolution[]): void {
  for (const each of resolutions.filter((one) => !used.has(one)))
    remark(`valise: --resolve ${each.host}:${each.port} was not used: nothing went to that host and port.`);
}

/** Returns a `fetch` that connects to the given addresses for the given hosts, and is plain `fetch` for all others. */
export function resolvingFetch(resolutions: readonly Resolution[]): FetchLike {
  if (resolutions.length === 0) return fetch;
  return (input, init = {}) => {
    const url = new URL(input);
    const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
    const at = (host: string): Resolution | undefined =>
      resolutions.find((each) => each.host === host && each.port === port);
    // As in curl, `*` applies only if no entry names the host.
    const found = at(withoutDot(url.hostname)) ?? at('*');
    if (!found) return fetch(input, init);
    used.add(found);
    return fetchAt(url, init, found);
  };
}

/** Sends a request to `url`, with its own Host header and server name, over a connection to another address. */
function fetchAt(url: URL, init: RequestInit, { addresses, toPort }: Resolution): Promise<Response> {
  const { request } = url.protocol === 'https:' ? https : http;
  const headers: Record<string, string> = { host: url.host };
  new Headers(init.headers).forEach((value, name) => {
    headers[name] = value;
  });
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        // Kept-alive connections are distinguished by this value. It is looked up only if it is more than one address.
        host: addresses.join(),
        lookup: givenAddresses(addresses),
        port: toPort,
        servername: withoutDot(url.hostname),
        method: init.method ?? 'GET',
        path: `${url.pathname}${url.search}`,
        headers,
        ...(init.signal && { signal: init.signal }),
      },
      (incoming) => {
        const status = incoming.statusCode ?? 500;
        const bodyless = status === 204 || status === 304 || init.method === 'HEAD';
        const received = new Headers();
        for (const [name, value] of Object.entries(incoming.headers)) {
          for (const one of Array.isArray(value) ? value : [value ?? '']) received.append(name, one);
        }
        if (bodyless) incoming.resume();
        const body = bodyless ? null : (Readable.toWeb(incoming) as ReadableStream<Uint8Array<ArrayBuffer>>);
        resolve(new Response(body, { status, statusText: incoming.statusMessage ?? '', headers: received }));
      },
    );
    outgoing.on('error', (cause) => reject(new TypeError('fetch failed', { cause })));
    if (init.body instanceof URLSearchParams || typeof init.body === 'string')
      outgoing.end(String(init.body));
    else outgoing.end();
  });
}

/** Returns a lookup function without DNS. Node tries the addresses in order if it asks for all of them. */
function givenAddresses(addresses: readonly string[]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_host, { all }, callback) => {
    if (all) callback(null, found);
    else callback(null, found[0]?.address ?? '', found[0]?.family);
  };
}
