import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import {
  type Era,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  type Problem,
  type RpcError,
  type SessionMeta,
} from '../../wire/index.ts';
import type { Reply } from '../part.ts';
import type { Peer } from '../peer.ts';

const INVALID_REQUEST = -32600;
/** Errors that are the client's to put right. */
const REFUSALS = new Set(['too-many-sessions', 'may-not-listen']);

/** The answer to params that cannot be. */
export function invalid({ problem, where }: Problem): Reply {
  return { error: { code: INVALID_PARAMS, message: `Invalid params: ${problem} at ${where}` } };
}

/** The answer where something on our side failed. An author's own error keeps its code and words, as in a handler. */
export function failed(error: unknown): RpcError {
  const { code, message, data } = (isObject(error) ? error : {}) as {
    readonly code?: unknown;
    readonly message?: unknown;
    readonly data?: unknown;
  };
  const text = typeof message === 'string' ? message : 'The session failed.';
  if (error instanceof ValiseError) {
    return {
      code: REFUSALS.has(error.code) ? INVALID_REQUEST : INTERNAL_ERROR,
      message: text,
      data: { code: error.code },
    };
  }
  return {
    code: Number.isSafeInteger(code) ? (code as number) : INTERNAL_ERROR,
    message: text,
    ...(data !== undefined && { data }),
  };
}

/** What a peer is told of a session: the number of its state only where it knows what that is. */
export function toldTo({ capabilities }: Peer, era: Era, session: SessionMeta): SessionMeta {
  if (session.seq === undefined || era === 'modern' || knowsUs(capabilities)) return session;
  const { seq: _, ...others } = session;
  return others;
}

const PLACES = ['extensions', 'experimental'];

/** True for a client of ours: it knows what no draft names. */
export function knowsUs(capabilities: Peer['capabilities']): boolean {
  for (const place of PLACES) {
    const named = capabilities?.[place];
    if (isObject(named) && isObject(named['dev.valise/sessions'])) return true;
  }
  return false;
}
