import { isObject } from '../core/json.ts';
import type { Meta, Params } from '../core/message.ts';
import { knowsExtensions } from './announce.ts';
import type { Codec } from './codec.ts';
import { DRAFTS, type Era, NAMES } from './names.ts';
import { sessionMethod } from './session-methods.ts';

/** The column of {@link NAMES} that a message uses, per family. Either spelling may be used in either era. */
export interface Spelling {
  readonly state: Era;
  readonly sessions: Era;
}

const OURS = NAMES.modern;
const DRAFT = NAMES.legacy;

/**
 * Returns the spelling that a message uses. A family is undefined if the message does not mention it, or mentions it in
 * both spellings, because then its sender understands either.
 */
export function spellingUsed(
  meta: unknown,
  method?: string,
): { readonly [Family in keyof Spelling]: Era | undefined } {
  const called = method === undefined ? undefined : sessionMethod(method)?.era;
  if (!isObject(meta)) return { state: undefined, sessions: called };
  const isDraftState =
    meta[DRAFT.state.session] !== undefined ||
    meta[DRAFT.state.server] !== undefined ||
    meta[DRAFTS.state.session] !== undefined ||
    meta[DRAFTS.state.server] !== undefined;
  const isDraftSession = meta[DRAFT.session] !== undefined || meta[DRAFTS.session] !== undefined;
  return {
    state: onlyOne(meta[OURS.state.key] !== undefined, isDraftState),
    sessions: called ?? onlyOne(meta[OURS.session] !== undefined, isDraftSession),
  };
}

function onlyOne(isOurs: boolean, isDraft: boolean): Era | undefined {
  if (isOurs === isDraft) return undefined;
  return isOurs ? 'modern' : 'legacy';
}

/** Returns the spelling that a request uses, or `otherwise` for a family it does not mention. */
export function spellingOf(
  { method, params }: { readonly method: string; readonly params?: Params | undefined },
  otherwise: Spelling,
): Spelling {
  const { state, sessions } = spellingUsed(params?._meta, method);
  return { state: state ?? otherwise.state, sessions: sessions ?? otherwise.sessions };
}

const SPELLED: { readonly [E in Era]: Spelling } = {
  legacy: { state: 'legacy', sessions: 'legacy' },
  modern: { state: 'modern', sessions: 'modern' },
};

/**
 * Returns the spelling in which a server answers a request: the request's own, else the one the client announced, else
 * the era's.
 */
export function answerSpelling(
  request: { readonly method: string; readonly params?: Params | undefined },
  era: Era,
  capabilities: unknown,
): Spelling {
  const isDrafts = era === 'modern' && announcesDraftsOnly(capabilities);
  return spellingOf(request, SPELLED[isDrafts ? 'legacy' : era]);
}

/** Whether a client announces the jar or sessions in the places that the drafts name, and nothing under Valise's own names. */
function announcesDraftsOnly(capabilities: unknown): boolean {
  if (!isObject(capabilities)) return false;
  const { state, sessions } = OURS.capability;
  const { experimental } = capabilities;
  const isAnnounced =
    isObject(capabilities[state]) ||
    isObject(capabilities[sessions]) ||
    (isObject(experimental) && isObject(experimental[sessions]));
  return isAnnounced && !knowsExtensions(capabilities);
}

const PLACES = ['extensions', 'experimental'];

/** Whether a client uses or announces Valise's own names for sessions, so that it knows what no draft defines. */
export function knowsSessionExtension({ sessions }: Spelling, capabilities: unknown): boolean {
  if (sessions === 'modern') return true;
  if (!isObject(capabilities)) return false;
  return PLACES.some((place) => {
    const named = capabilities[place];
    return isObject(named) && isObject(named[OURS.extension.sessions]);
  });
}

/**
 * Returns the HTTP headers that may name the session of a message.
 *
 * If the transport has its own session, `Mcp-Session-Id` refers to that one. On 2026-07-28 it has a meaning only in the drafts'
 * spelling.
 */
export function sessionHeaders(
  { isStateless }: Codec,
  { sessions }: Spelling,
  hasTransportSession: boolean,
): readonly string[] {
  const isMirrored = !hasTransportSession && !(isStateless && sessions === 'modern');
  return isMirrored ? [OURS.header.session, DRAFT.header.session] : [OURS.header.session];
}

/** Returns the `_meta` without the session that it names, in any spelling. */
export function withoutSession(meta: Meta | undefined): Meta {
  const {
    [OURS.session]: _ours,
    [DRAFT.session]: _seeds,
    [DRAFTS.session]: _drafts,
    [OURS.seq]: _seq,
    ...others
  } = meta ?? {};
  return others;
}

/** Returns the `_meta` with another state of the session that it names, in the spelling that it uses. */
export function replaceSession(
  meta: Meta | undefined,
  { sessionId, state }: { readonly sessionId: string; readonly state?: unknown },
): Meta {
  const { session } = NAMES[spellingUsed(meta).sessions ?? 'legacy'];
  return { ...withoutSession(meta), [session]: { sessionId, state } };
}
