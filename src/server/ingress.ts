import { Course } from '../link/course.ts';
import type { TransportLike } from '../link/transport.ts';
import type { Id, Message } from '../wire/index.ts';
import type { Answered, RoundContext } from './flow/context.ts';
import { isHttp } from './over-http.ts';
import type { Peer } from './peer.ts';

/** What Valise's own HTTP edge knows about a request before any transport sees it. */
export interface Ingress {
  /** A transport session that is proved by its seal, where the SDK's transport keeps none. */
  readonly transportSession?: string;
  /** The client as that session's `initialize` introduced it. */
  readonly peer?: Peer;
  /** The answer of a round that came without its call; the edge has put the call in its place. */
  readonly answered?: Answered;
  /** Takes over the HTTP answer of a call that asks back and will be answered elsewhere. */
  readonly suspend?: (asking: Asking) => void;
  /** The transport that it is about. */
  transport?: TransportLike;
}

/** A question on its way to the client, in place of its call's answer. */
export interface Asking {
  readonly message: Message;
  readonly context: RoundContext;
  /** True where the client brings the context back in the id of its answer, and fetches what comes of it by itself. */
  readonly byId: boolean;
}

const ingress = new Course<Ingress>();

/**
 * What the edge around the present request knows; undefined where there is no edge of ours. It is about the first transport
 * that takes up an HTTP request there, and not about servers in this process that a handler calls in turn.
 */
export function currentIngress(transport: TransportLike, extra: unknown, id?: Id): Ingress | undefined {
  const known = ingress.current;
  if (!known) return undefined;
  if (isHttp(extra)) known.transport ??= transport;
  if (known.transport !== transport) return undefined;
  if (!known.answered || known.answered.context.o?.i === id) return known;
  // Later calls of a client in this process run in the same course, and the answer is not for them.
  const { answered, ...rest } = known;
  return rest;
}

/** Runs an SDK handler with what the edge knows. */
export function runWithIngress<T>(known: Ingress, handle: () => T): T {
  return ingress.run(known, handle);
}
