import { isEmpty, isObject } from '../core/json.ts';
import { type Announced, CORE, NAMES, type Params, type Request, readAnnounced } from '../wire/index.ts';
import { Recent } from './recent.ts';

/** The client of a request, as far as it is known. */
export interface Peer {
  /** The client's capabilities as it sent them, or undefined if this instance has never seen them. */
  readonly capabilities: Readonly<Record<string, unknown>> | undefined;
  readonly families: Announced;
  readonly protocolVersion: string | undefined;
}

/** A client about which nothing is known. */
export const STRANGER: Peer = {
  capabilities: undefined,
  families: readAnnounced(undefined),
  protocolVersion: undefined,
};

/** Returns the client as introduced by `initialize`, or by a request that carries its own introduction. */
export function peerOf(request: Request, known: Peer): Peer {
  if (request.method === 'initialize')
    return introduced(request.params?.['capabilities'], request.params?.['protocolVersion']);
  const meta = request.params?._meta;
  if (!meta) return known;
  if (isObject(meta[CORE.clientCapabilities]))
    return introduced(meta[CORE.clientCapabilities], meta[CORE.protocolVersion]);
  const hint = meta[NAMES.legacy.introduction];
  return (typeof hint === 'string' ? introducedBy(hint) : readHint(hint)) ?? known;
}

/** Recently read introductions, since most clients that call repeatedly send the same one with each request. */
const lately = new Recent<Peer>(64);

/** The maximum length of a remembered introduction. Longer ones, which are rare, are read each time. */
const MAX_REMEMBERED = 4096;

function introducedBy(text: string): Peer | undefined {
  const known = lately.get(text);
  if (known) return known;
  const peer = readHint(parsed(text));
  if (peer && text.length <= MAX_REMEMBERED) lately.set(text, peer);
  return peer;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function readHint(hint: unknown): Peer | undefined {
  return isObject(hint) ? introduced(hint['capabilities'], hint['protocolVersion']) : undefined;
}

/** Removes the introduction that our own client adds for stateless servers, since handlers need not see it. */
export function withoutIntroduction(params: Params | undefined): Params | undefined {
  if (!isObject(params?._meta) || !(NAMES.legacy.introduction in params._meta)) return params;
  const { [NAMES.legacy.introduction]: _, ...others } = params._meta;
  const { _meta, ...own } = params;
  return isEmpty(others) ? own : { ...own, _meta: others };
}

function introduced(capabilities: unknown, version: unknown): Peer {
  return {
    capabilities: isObject(capabilities) ? capabilities : undefined,
    families: readAnnounced(capabilities),
    protocolVersion: typeof version === 'string' ? version : undefined,
  };
}

/** Whether a message came over HTTP. SDK v1 passes the request as `requestInfo`, v2 as the `Request` itself. */
export function isHttp(extra: unknown): boolean {
  return isObject(extra) && (extra['requestInfo'] !== undefined || extra['request'] !== undefined);
}
