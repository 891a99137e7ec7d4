import { domainToASCII } from 'node:url';
import { parse } from 'tldts';
import { stdioName } from './stdio-name.ts';
import type { Target } from './target.ts';

/** The identity of a server for its state. It never depends on what the server says about itself. */
export interface Identity {
  /** A domain name in lower case and ASCII, or the path of a stdio server. */
  readonly name: string;
  /** The site that one owner controls: the registrable domain, or the name. */
  readonly site: string;
  /** The domains that a `server-scope` of this server may name, narrowest first. Empty on stdio. */
  readonly scopes: readonly string[];
  /** Whether state is stored only because `allowLocal` is on. */
  readonly local: boolean;
  /** Whether the connection is encrypted. Undefined if it is not over a network. */
  readonly secure?: boolean | undefined;
  /** Whether nothing distinguishes this server from another. Its state then ends with the connection. */
  readonly passing: boolean;
}

/** A server for which no state is stored. */
export interface NoIdentity {
  readonly name: string;
  /** A human-readable reason. */
  readonly refused: string;
}

/** How servers are identified. */
export interface IdentityOptions {
  /** Development only: also stores state for localhost, IP addresses and servers in this process. */
  readonly allowLocal?: boolean | undefined;
  /** Adds the digest of its file to a stdio server's name, so that a changed program starts without state. */
  readonly digest?: boolean | undefined;
}

/** Whether state is stored for the server. */
export function isIdentity(one: Identity | NoIdentity): one is Identity {
  return 'site' in one;
}

/** Returns the identity of the server behind a target. */
export function identify(target: Target, options: IdentityOptions = {}): Identity | NoIdentity {
  switch (target.kind) {
    case 'http':
      return identifyUrl(target.url, options);
    case 'stdio':
      return stdioIdentity(stdioName(target, options.digest));
    case 'unknown':
      return identifyUnknown(options);
  }
}

let strangers = 0;

function identifyUnknown({ allowLocal }: IdentityOptions): Identity | NoIdentity {
  const name = 'memory:';
  if (!allowLocal) return { name, refused: 'It is unknown which server is at the other end.' };
  const own = `${name}${++strangers}`;
  return { name: own, site: own, scopes: [], local: true, passing: true };
}

/** Identifies an HTTP server by its host: no scheme, no port, no final dot, lower case, IDN as punycode. */
function identifyUrl(url: URL, { allowLocal }: IdentityOptions): Identity | NoIdentity {
  // For these schemes, the URL parser itself normalizes every spelling of an address.
  const known = ['http:', 'https:', 'ws:', 'wss:'].includes(url.protocol);
  const name = url.hostname.toLowerCase().replace(/\.$/, '');
  const { refused, site } = known
    ? registrable(name)
    : { refused: `${url.protocol} is not a web address.`, site: '' };
  const secure = url.protocol === 'https:' || url.protocol === 'wss:';
  if (refused === undefined)
    return { name, site, scopes: scopesOf(name, site), local: false, secure, passing: false };
  if (!allowLocal || !known || name === '') return { name, refused };
  return { name, site: name, scopes: [name], local: true, secure, passing: false };
}

function registrable(name: string): { readonly refused?: string; readonly site: string } {
  const no = (refused: string) => ({ refused, site: '' });
  const { isIp, isIcann, isPrivate, domain, hostname } = parse(name, { allowPrivateDomains: true });
  if (isIp || name.startsWith('[')) return no(`${name} is an address.`);
  if (name === 'localhost' || name.endsWith('.localhost')) return no(`${name} is this machine.`);
  if (hostname === null || hostname !== name) return no(`${JSON.stringify(name)} is not a domain name.`);
  if (!name.includes('.')) return no(`${name} is a single label, not a registered domain.`);
  // An unknown top-level name gets a `domain` too. These two flags say that a registry manages it.
  if (!isIcann && !isPrivate) return no(`No public registry knows the end of ${name}.`);
  if (domain === null) return no(`${name} is a public suffix: many owners have names below it.`);
  return { site: domain };
}

/** Returns the host itself and every parent down to the registrable domain. */
function scopesOf(name: string, site: string): string[] {
  const scopes = [name];
  for (let at = name; at !== site; ) {
    at = at.slice(at.indexOf('.') + 1);
    scopes.push(at);
  }
  return scopes;
}

/** Returns the {@link Identity.site} of a known name. */
export function siteOf(name: string): string {
  return name.includes('/') ? name : registrable(name).site || name;
}

/** Normalizes a `server-scope` to the form of {@link Identity.scopes}. */
export function normalScope(scope: string): string {
  const bare = scope.replace(/^\./, '').replace(/\.$/, '').toLowerCase();
  return domainToASCII(bare) || bare;
}

function stdioIdentity(name: string): Identity {
  return { name, site: name, scopes: [], local: false, passing: false };
}
