import { domainToASCII } from 'node:url';
import { parse } from 'tldts';
import { stdioName } from './stdio-name.ts';
import type { Target } from './target.ts';

/** Who a server is, as far as its state is concerned. Never what the server says about itself. */
export interface Identity {
  /** A domain name in lower case and ASCII, or the path of a stdio server. */
  readonly name: string;
  /** What one owner controls: the registrable domain, or the name. */
  readonly site: string;
  /** The domains that a `server-scope` of this server may name, the narrowest first; none on stdio. */
  readonly scopes: readonly string[];
  /** True where only the development switch lets state be kept. */
  readonly local: boolean;
  /** Whether the connection is encrypted; undefined if it is none over a network. */
  readonly secure?: boolean | undefined;
  /** True where nothing tells this server from another: its state ends with the connection. */
  readonly passing: boolean;
}

/** A server that no state may be kept for. */
export interface NoIdentity {
  readonly name: string;
  /** A sentence for people. */
  readonly refused: string;
}

/** How servers are told apart. */
export interface IdentityOptions {
  /** Development only: state is kept for localhost, addresses and servers in this process too. */
  readonly allowLocal?: boolean | undefined;
  /** A stdio server's name carries the digest of its file: any change to the program starts empty. */
  readonly digest?: boolean | undefined;
}

/** True where state may be kept for the server. */
export function isIdentity(one: Identity | NoIdentity): one is Identity {
  return 'site' in one;
}

/** Who the server behind a target is. */
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
  if (!allowLocal) return { name, refused: 'Nothing tells what server is at the other end.' };
  const own = `${name}${++strangers}`;
  return { name: own, site: own, scopes: [], local: true, passing: true };
}

/** An HTTP server's name is its host: no scheme, no port, no final dot, lower case, IDN as punycode. */
function identifyUrl(url: URL, { allowLocal }: IdentityOptions): Identity | NoIdentity {
  // For these schemes the URL parser itself turns every spelling of an address into the usual one.
  const known = ['http:', 'https:', 'ws:', 'wss:'].includes(url.protocol);
  const name = url.hostname.toLowerCase().replace(/\.$/, '');
  const { refused, site } = known
    ? registrable(name)
    : { refused: `${url.protocol} is no web address.`, site: '' };
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
  // An unknown top-level name gets a `domain` all the same; these two say that a registry stands behind it.
  if (!isIcann && !isPrivate) return no(`No public registry knows the end of ${name}.`);
  if (domain === null) return no(`${name} is a public suffix: many owners have names below it.`);
  return { site: domain };
}

/** The host itself and every parent down to the registrable domain. */
function scopesOf(name: string, site: string): string[] {
  const scopes = [name];
  for (let at = name; at !== site; ) {
    at = at.slice(at.indexOf('.') + 1);
    scopes.push(at);
  }
  return scopes;
}

/** The {@link Identity.site} of a name that is known already. */
export function siteOf(name: string): string {
  return name.includes('/') ? name : registrable(name).site || name;
}

/** A `server-scope` as {@link Identity.scopes} writes it. */
export function normalScope(scope: string): string {
  const bare = scope.replace(/^\./, '').replace(/\.$/, '').toLowerCase();
  return domainToASCII(bare) || bare;
}

function stdioIdentity(name: string): Identity {
  return { name, site: name, scopes: [], local: false, passing: false };
}
