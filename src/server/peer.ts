import { isObject } from '../json.ts';
import { type Announced, CORE, NAMES, type Params, type Request, readAnnounced } from '../wire/index.ts';

/** What is known about the client of a request. */
export interface Peer {
  /** The client's capabilities as it sent them, or undefined where this instance has never seen them. */
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

/** The client as `initialize` introduces it, or as a request that carries its own introduction does. */
export function peerOf(request: Request, known: Peer): Peer {
  if (request.method === 'initialize')
    return introduced(request.params?.['capabilities'], request.params?.['protocolVersion']);
  const meta = request.params?._meta;
  if (!meta) return known;
  if (isObject(meta[CORE.clientCapabilities]))
    return introduced(meta[CORE.clientCapabilities], meta[CORE.protocolVersion]);
  const hint = meta[NAMES.legacy.introduction];
  return isObject(hint) ? introduced(hint['capabilities'], hint['protocolVersion']) : known;
}

/** The request without the introduction that our own client adds towards stateless servers: handlers need not see it. */
export function withoutIntroduction(params: Params | undefined): Params | undefined {
  if (!isObject(params?._meta) || !(NAMES.legacy.introduction in params._meta)) return params;
  const { [NAMES.legacy.introduction]: _, ...meta } = params._meta;
  return { ...params, _meta: meta };
}

function introduced(capabilities: unknown, version: unknown): Peer {
  return {
    capabilities: isObject(capabilities) ? capabilities : undefined,
    families: readAnnounced(capabilities),
    protocolVersion: typeof version === 'string' ? version : undefined,
  };
}
