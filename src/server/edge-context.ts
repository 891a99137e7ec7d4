import { AsyncVariable } from '../core/async-context.ts';
import type { Id, Message } from '../wire/index.ts';
import type { Answered, Continuation } from './flows/continuation.ts';
import type { ForeignSession } from './http/transport-session.ts';
import type { Peer } from './peer.ts';
import { isHttp } from './peer.ts';

/** The facts that Valise's own HTTP edge knows about a request before any transport sees it. */
export interface EdgeContext {
  /** The Valise that the edge belongs to. */
  readonly owner: object;
  /** A transport session that its seal proves, if the SDK's transport stores none. */
  readonly transportSession?: string;
  /** The remote address of the request, if the HTTP server reports it. */
  readonly address?: string;
  /** Returns the URL of the request without its query. The edge serves pages with questions there. */
  readonly page?: () => string;
  /** A session id that only the SDK's transport can know. */
  readonly foreignSession?: ForeignSession;
  /** The client as that session's `initialize` introduced it. */
  readonly peer?: Peer;
  /** The answer of a round that came without its call. The edge has substituted the call. */
  readonly answered?: Answered;
  /** Takes over the HTTP response of a call that asks a question and will be answered elsewhere. */
  readonly suspend?: (asking: Asking) => void;
  /** Called with every message that the server sends for the call, its response included. */
  readonly sent?: ((message: Message) => void) | undefined;
  /** The number of the link that it applies to. Links themselves would stay in memory with idle HTTP connections. */
  link?: number;
  /** Whether the call that {@link answered} is for has arrived. */
  isSpent?: true;
}

/** A question on its way to the client, in place of its call's answer. */
export interface Asking {
  readonly message: Message;
  readonly continuation: Continuation;
  /** Whether the client returns the context in the id of its answer, and fetches the outcome by itself. */
  readonly byId: boolean;
  /** Messages that the call sent before the question and that have not been written yet. */
  readonly before?: readonly Message[];
}

const edgeContext = new AsyncVariable<EdgeContext>();

/**
 * Returns what the edge knows about a message.
 *
 * It applies to the first link of its Valise that accepts an HTTP request there, and not to servers in this process that a
 * handler calls in turn. An answer applies to the one call that it names by its `id`.
 */
export function takeEdgeContext(
  owner: object,
  link: number,
  extra: unknown,
  id?: Id,
): EdgeContext | undefined {
  const known = edgeContext.current;
  if (known?.owner !== owner) return undefined;
  if (id !== undefined && known.answered && !known.isSpent && known.answered.continuation.o?.i === id) {
    known.link = link;
    known.isSpent = true;
    return known;
  }
  if (!isHttp(extra)) return undefined;
  known.link ??= link;
  if (known.link !== link) return undefined;
  if (!known.answered) return known;
  const { answered, ...rest } = known;
  return rest;
}

/** Runs an SDK handler with what the edge knows, if anything. */
export function runWithEdgeContext<T>(known: EdgeContext | undefined, handle: () => T): T {
  return known ? edgeContext.run(known, handle) : handle();
}
