import { isIP, isIPv6, type LookupFunction } from 'node:net';
import { domainToASCII } from 'node:url';
import type { FetchLike } from 'mcp-valise/internal';
import type { Agent } from 'undici';
import { UsageError } from '../errors.ts';
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
    throw new UsageError('bad-resolve', `"${text}" is not HOST:PORT:ADDRESS[,ADDRESS][:PORT].`, {
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
  throw new UsageError('bad-resolve', `${digits} in "${text}" is not a port.`, {
    next: 'Ports go from 1 to 65535.',
  });
}

const used = new WeakSet<Resolution>();

/** Reports which entries no request used: most likely their host or port is not that of the target. */
export function tellUnused(resolutions: readonly Resolution[]): void {
  for (const each of resolutions.filter((one) => !used.has(one)))
    remark(`valise: --resolve ${each.host}:${each.port} was not used: nothing went to that host and port.`);
}

/** Returns a `fetch` that connects to the given addresses for the given hosts. All others are looked up as usual. */
export function resolvingFetch(resolutions: readonly Resolution[]): FetchLike {
  if (resolutions.length === 0) return fetch;
  let agent: Agent | undefined;
  return async (input, init) => {
    const undici = await import('undici');
    agent ??= agentFor(undici, resolutions);
    const response = await undici.fetch(input, { ...init, dispatcher: agent } as Parameters<
      typeof undici.fetch
    >[1]);
    return response as unknown as Response;
  };
}

/** A name that is never an address, so that it is looked up. Nothing is sent to it. */
const LOOKED_UP = 'resolved.invalid';

function agentFor(
  { Agent, buildConnector }: Pick<typeof import('undici'), 'Agent' | 'buildConnector'>,
  resolutions: readonly Resolution[],
): Agent {
  const asUsual = buildConnector({});
  return new Agent({
    // A question may stay open for hours before the server answers.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect(options, callback) {
      const { hostname, protocol, port } = options;
      // An IPv6 address comes without its brackets.
      const host = isIPv6(hostname) ? `[${hostname}]` : withoutDot(hostname);
      const from = Number(port || (protocol === 'https:' ? 443 : 80));
      const at = (name: string): Resolution | undefined =>
        resolutions.find((each) => each.host === name && each.port === from);
      // As in curl, `*` applies only if no entry names the host.
      const found = at(host) ?? at('*');
      if (!found) return asUsual(options, callback);
      used.add(found);
      const connect = buildConnector({ lookup: givenAddresses(found.addresses), autoSelectFamily: true });
      // The Host header and the name in the certificate are those of the URL.
      return connect(
        { ...options, hostname: LOOKED_UP, port: String(found.toPort), servername: host },
        callback,
      );
    },
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
