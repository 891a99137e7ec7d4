import { BlockList, isIP } from 'node:net';
import { parse } from 'tldts';
import { ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import type { FetchLike } from '../../edge/fetch.ts';

/** The network of a host, as far as its name or address shows. No server belongs in `reserved`, such as 169.254.169.254. */
type Network = 'public' | 'private' | 'loopback' | 'reserved';

const LOOPBACK = blockList(['127.0.0.0/8', '0.0.0.0/8', '::1/128', '::/128']);
const PRIVATE = blockList(['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', 'fc00::/7']);
const RESERVED = blockList([
  ...['169.254.0.0/16', '192.0.0.0/24', '192.0.2.0/24', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['224.0.0.0/3', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'],
]);
/** Contains every public address, and every IPv4 address that is written as an IPv6 one. */
const UNICAST = blockList(['0.0.0.0/0', '2000::/3']);

function blockList(subnets: readonly string[]): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [address = '', bits] = subnet.split('/');
    list.addSubnet(address, Number(bits), isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
}

/** Returns the network of a host in any spelling. The URL parser has already turned `0x7f.1` and `2130706433` into 127.0.0.1. */
function networkOf({ hostname }: URL): Network {
  const name = hostname.replace(/\.$/, '').replace(/^\[(.*)\]$/, '$1');
  const family = isIP(name);
  if (family !== 0) {
    const isIn = (list: BlockList): boolean => list.check(name, family === 6 ? 'ipv6' : 'ipv4');
    if (isIn(LOOPBACK)) return 'loopback';
    if (isIn(PRIVATE)) return 'private';
    return isIn(RESERVED) || !isIn(UNICAST) ? 'reserved' : 'public';
  }
  if (/(^|\.)(localhost|localdomain)$|^ip6-(localhost|loopback)$/.test(name)) return 'loopback';
  const { hostname: valid, isIcann, isPrivate } = parse(name, { allowPrivateDomains: true });
  if (valid !== name) return 'reserved';
  return (isIcann || isPrivate) && !/(^|\.)home\.arpa$/.test(name) ? 'public' : 'private';
}

/** The networks that a server's metadata may send the client to. */
const REACH: Readonly<Record<Network, readonly Network[]>> = {
  public: ['public'],
  reserved: ['public'],
  private: ['public', 'private'],
  loopback: ['public', 'private', 'loopback'],
};

const WHERE: Readonly<Record<Network, string>> = {
  public: 'on the internet',
  private: 'on a private network',
  loopback: 'on this machine',
  reserved: 'at a reserved address',
};

const CODE = 'sign-in-insecure';

/**
 * Throws if a server's OAuth metadata names an endpoint that the server may not name. A server must not use the client to
 * reach this machine, or a network that it is not in itself. Elsewhere, an endpoint must be `https:`.
 */
function checkEndpoint(server: URL, endpoint: URL, name: string): void {
  const from = networkOf(server);
  const to = networkOf(endpoint);
  const isWithinReach = endpoint.hostname === server.hostname || REACH[from].includes(to);
  const isPlainAllowed = to === 'loopback' || (to !== 'public' && server.protocol === 'http:');
  const isWeb = endpoint.protocol === 'https:' || endpoint.protocol === 'http:';
  const isSafe = endpoint.protocol === 'https:' || (endpoint.protocol === 'http:' && isPlainAllowed);
  const namesUser = endpoint.username !== '' || endpoint.password !== '';
  if (isWithinReach && isSafe && !namesUser) return;
  const why = !isWeb
    ? 'not a web address'
    : namesUser
      ? 'a URL with a user name'
      : isWithinReach
        ? 'not https:'
        : `${WHERE[to]}, while the server is ${WHERE[from]}`;
  const shown = isWeb ? `${endpoint.protocol}//${endpoint.host}${endpoint.pathname}` : endpoint.protocol;
  throw new ValiseError(CODE, `The server ${server.host} names ${shown} as its ${name}, which is ${why}.`, {
    next: 'Nothing was sent there. Ask the operator of the server for a public https: address.',
  });
}

/** Whether an endpoint was rejected, so that nothing was sent to it. */
export function isEndpointRefusal(error: unknown): error is ValiseError {
  return error instanceof ValiseError && error.code === CODE;
}

/** The members of an authorization server's metadata that a client uses or may have to use. */
const CHECKED =
  /^(issuer|authorization_server|jwks_uri|(authorization|token|registration|revocation)_endpoint)$/;

const MAX_REDIRECTS = 5;

/** Checks the OAuth endpoints that one server's metadata sends its clients to. */
export class EndpointGuard {
  readonly #server: URL;
  #refusal: ValiseError | undefined;

  constructor(server: URL) {
    this.#server = server;
  }

  /** Why an endpoint was rejected since the last {@link reset}. */
  get refusal(): ValiseError | undefined {
    return this.#refusal;
  }

  /** Forgets the rejection, because the server has named its endpoints again. */
  reset(): void {
    this.#refusal = undefined;
  }

  /** Checks the page that a user is sent to. */
  checkPage(page: URL): void {
    this.#check(page, 'authorization_endpoint');
  }

  /** Checks all endpoints that discovery has found, by their names. */
  checkDiscovery(discovery: object): void {
    const { authorizationServerUrl, authorizationServerMetadata: metadata } = discovery as Record<
      string,
      unknown
    >;
    const named = { ...(isObject(metadata) && metadata), authorization_server: authorizationServerUrl };
    for (const [name, value] of Object.entries(named))
      if (CHECKED.test(name) && URL.canParse(String(value))) this.#check(new URL(String(value)), name);
  }

  /**
   * Returns a `fetch` for all OAuth requests: discovery, registration, tokens, revocation. It checks each URL before
   * sending anything to it, including after a redirect; only GET follows redirects. The SDKs continue after some discovery
   * failures, so once an endpoint is rejected, nothing more is sent until the next {@link reset}.
   */
  fetch(base: FetchLike): FetchLike {
    return async (input, init = {}) => {
      if (this.#refusal) throw this.#refusal;
      const isGet = (init.method ?? 'GET').toUpperCase() === 'GET';
      let url = new URL(input);
      for (let hops = 0; ; hops++) {
        this.#check(url, isGet ? 'OAuth metadata' : 'OAuth endpoint');
        const response = await base(url, { ...init, redirect: 'manual' });
        const location = isRedirect(response.status) ? response.headers.get('location') : null;
        if (!isGet || location === null || !URL.canParse(location, url) || hops === MAX_REDIRECTS)
          return response;
        await response.body?.cancel();
        url = new URL(location, url);
      }
    };
  }

  #check(endpoint: URL, name: string): void {
    try {
      checkEndpoint(this.#server, endpoint, name);
    } catch (error) {
      if (isEndpointRefusal(error)) this.#refusal = error;
      throw error;
    }
  }
}

function isRedirect(status: number): boolean {
  return [301, 302, 303, 307, 308].includes(status);
}
