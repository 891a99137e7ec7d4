import { isLowered } from '../../link/edge-stdio.ts';
import { stdinOf, type TransportLike } from '../../link/transport.ts';
import { type Carrier, INPUT_METHODS } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import { isHttp } from '../peer.ts';
import { FlowError } from './errors.ts';

/**
 * The ways to ask a client, in addition to the {@link Carrier}s that it may have announced:
 *
 * - `request-state`: the call is answered with its questions (2026-07-28)
 * - `id`: the question's own id carries the context, and every client sends it back
 * - `memory`: the handler waits in memory
 */
export type Way = Carrier | 'request-state' | 'id' | 'memory';

/** Returns the ways to ask the client of an exchange, best first. `edge`: the request came through our own HTTP edge. */
export function waysOf(exchange: Exchange, edge: boolean): readonly Way[] {
  const { era, method, peer, extra, link } = exchange;
  if (era === 'modern') return INPUT_METHODS.includes(method) ? ['request-state'] : [];
  const announced = peer.families.rounds;
  if (!isHttp(extra)) return bringsTop(link.transport) ? [...announced, 'memory'] : ['memory'];
  const own = edge ? announced : [];
  // Answers in a transport session come back to the instance that holds it. Without a session they may reach any instance.
  if (link.transport.sessionId !== undefined) return [...own, 'memory'];
  return edge ? [...own, 'id'] : [];
}

/** Whether state that a client echoes comes back on the connection that it introduces itself on. */
export function carries({ era, extra, link }: Exchange, edge: boolean): boolean {
  return era === 'modern' || (isHttp(extra) ? edge : bringsTop(link.transport));
}

/** Returns the best way for this many questions at once. If a way takes only one, the others are asked after it. */
export function pick(ways: readonly Way[], questions: number): Way | undefined {
  const together = questions === 1 ? undefined : ways.find((way) => way.startsWith('dependent'));
  return together ?? ways[0];
}

/**
 * Returns a way with more room than one whose answer comes alone, if there is one.
 *
 * Its answer comes with the call, so that the state need not contain the call.
 */
export function roomier(way: Way, ways: readonly Way[]): Exclude<Way, 'memory'> | undefined {
  const found = isSingle(way) ? ways.find((other) => other.startsWith('dependent')) : undefined;
  return found as Exclude<Way, 'memory'> | undefined;
}

/** Whether a way carries one question at a time, whose answer comes alone. */
export function isSingle(way: Way): boolean {
  return way === 'state' || way === 'id';
}

/** Returns the error for a client that cannot be asked in any way. */
export function noWay({ era, method }: Exchange, key: string): FlowError {
  return era === 'modern'
    ? new FlowError(
        'no-carrier',
        `"${key}" cannot be asked while ${method} is answered: this revision does not allow it.`,
        {
          key,
          next: `Ask in ${INPUT_METHODS.join(', ')} only.`,
        },
      )
    : new FlowError(
        'no-carrier',
        `"${key}" cannot be asked: answers would not find their way back to this server.`,
        {
          key,
          next: 'Wrap the HTTP handler in valise.http(), so that any instance can take the answer.',
        },
      );
}

/** Whether a client's top-level members reach us: there are no bytes in between, or our own edge reads them. */
function bringsTop(transport: TransportLike): boolean {
  // The property name of the in-memory pair in both SDK majors.
  const { _otherTransport } = transport as TransportLike & { readonly _otherTransport?: unknown };
  return _otherTransport !== undefined || isLowered(stdinOf(transport));
}
