import { Course } from '../link/course.ts';
import type { Id, Message } from '../wire/index.ts';
import type { Answered, RoundContext } from './flow/context.ts';
import type { Stray } from './http/stray.ts';
import { isHttp } from './over-http.ts';
import type { Peer } from './peer.ts';

/** What Valise's own HTTP edge knows about a request before any transport sees it. */
export interface EdgeContext {
  /** The Valise whose edge it is. */
  readonly owner: object;
  /** A transport session that is proved by its seal, where the SDK's transport keeps none. */
  readonly transportSession?: string;
  /** Where the request came from, where the server says so. */
  readonly address?: string;
  /** A session id that only the SDK's transport can know. */
  readonly stray?: Stray;
  /** The client as that session's `initialize` introduced it. */
  readonly peer?: Peer;
  /** The answer of a round that came without its call; the edge has put the call in its place. */
  readonly answered?: Answered;
  /** Takes over the HTTP answer of a call that asks back and will be answered elsewhere. */
  readonly suspend?: (asking: Asking) => void;
  /** Hears what such a call sends besides its answer. */
  readonly sent?: ((message: Message) => void) | undefined;
  /** The number of the link that it is about; links themselves would stay in memory with idle HTTP connections. */
  link?: number;
  /** True once the call that {@link answered} is for has come. */
  isSpent?: true;
}

/** A question on its way to the client, in place of its call's answer. */
export interface Asking {
  readonly message: Message;
  readonly context: RoundContext;
  /** True where the client brings the context back in the id of its answer, and fetches what comes of it by itself. */
  readonly byId: boolean;
  /** What the call has sent before, as texts, where that is not out yet. */
  readonly before?: readonly string[];
}

const edgeContext = new Course<EdgeContext>();

/** What the edge of a Valise around the present message knows; undefined where there is none. */
function presentEdgeContext(owner: object): EdgeContext | undefined {
  const known = edgeContext.current;
  return known?.owner === owner ? known : undefined;
}

/**
 * What the edge knows about a message. It is about the first link of its Valise that takes up an HTTP request there, and
 * not about servers in this process that a handler calls in turn; an answer is for the one call that it names by its `id`.
 */
export function takeEdgeContext(
  owner: object,
  link: number,
  extra: unknown,
  id?: Id,
): EdgeContext | undefined {
  const known = presentEdgeContext(owner);
  if (!known) return undefined;
  if (id !== undefined && known.answered && !known.isSpent && known.answered.context.o?.i === id) {
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
