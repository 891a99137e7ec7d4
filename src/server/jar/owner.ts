import { ValiseError } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { type Era, isSession, readSession, type Scope } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import { principalKey } from '../principal.ts';

/** The store keys for the state of a client that carries none. */
export type Owners = { readonly [S in Scope]: string };

/**
 * Returns the owners of a request's state, or undefined if there is neither a principal nor a session.
 *
 * Session scope belongs to the session: the data-layer one if the client uses one, else the transport's, in each case only for
 * the principal that it was set for. Over stateless HTTP, which has no session, it belongs to the principal. Server scope
 * belongs to the principal; without one, it ends with the session.
 */
export function ownersOf(exchange: Exchange, name: string, withSessions: boolean): Owners | undefined {
  const principal = principalKey(exchange.principal) ?? null;
  const session = sessionOf(exchange, withSessions);
  if (principal === null && session === null) return undefined;
  return {
    session: storeKey('session', [name, session, principal]),
    server: storeKey('server', principal === null ? [name, session, null] : [name, null, principal]),
  };
}

/** Returns the session that session scope belongs to: the data-layer one, else the transport's, or null if there is neither. */
export function sessionOf(exchange: Exchange, withSessions: boolean): string | null {
  return (withSessions ? claimedSession(exchange) : undefined) ?? exchange.transportSession ?? null;
}

/** Whether the principal is known. Without one, server scope lasts no longer than a session. */
export function isNamed({ principal }: Exchange): boolean {
  return principalKey(principal) !== undefined;
}

/** Returns the session that the request claims. The claim is verified before any handler runs. */
function claimedSession({ request }: Exchange): string | undefined {
  const session = readSession(request.params?._meta);
  return isSession(session) ? `session:${session.sessionId}` : undefined;
}

function storeKey(scope: Scope, owner: readonly (string | null)[]): string {
  return `state/${scope}/${sha256(JSON.stringify(owner))}`;
}

/** Returns the error that `set` throws if the value cannot be stored anywhere. */
export function noCarrier(hasStore: boolean, era: Era): ValiseError {
  // The newer era has no transport sessions.
  const advice = era === 'legacy' ? 'Serve with transport sessions (a sessionIdGenerator), verify' : 'Verify';
  return hasStore
    ? new ValiseError(
        'no-carrier',
        'This client does not carry state, and its requests have neither a transport session nor a verified principal under which the server could store it.',
        {
          next: `${advice} who asks (authInfo, or the option principal of createValise), or use a client that announces the capability "state".`,
        },
      )
    : new ValiseError(
        'no-carrier',
        'This client does not carry state, and this server has no store to keep it in.',
        {
          next: 'Give createValise a store, such as store: "sqlite:./state.db", or use a client that announces the capability "state".',
        },
      );
}
