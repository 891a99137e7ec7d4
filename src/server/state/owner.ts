import { ValiseError } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { type Era, isSession, readSession, type Scope } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import { principalKey } from '../principal.ts';

/** The store keys under which the state of a client that carries none is kept. */
export type Owners = { readonly [S in Scope]: string };

/**
 * Whose state it is. Session scope belongs to the session: the data-layer one where the client uses one, else the
 * transport's, in each case only for the principal that it was set for; over stateless HTTP, where there is no
 * session, to the principal. Server scope belongs to the principal; where nobody is known, it ends with the session.
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

/** The session that session scope belongs to: the data-layer one, else the transport's; null if there is neither. */
export function sessionOf(exchange: Exchange, withSessions: boolean): string | null {
  return (withSessions ? claimedSession(exchange) : undefined) ?? exchange.transportSession ?? null;
}

/** True where somebody is known to ask; without, server scope lasts no longer than a session. */
export function isNamed({ principal }: Exchange): boolean {
  return principalKey(principal) !== undefined;
}

/** As the request says; whether it is true is found out before any handler runs. */
function claimedSession({ request }: Exchange): string | undefined {
  const session = readSession(request.params?._meta);
  return isSession(session) ? `session:${session.sessionId}` : undefined;
}

function storeKey(scope: Scope, owner: readonly (string | null)[]): string {
  return `state/${scope}/${sha256(JSON.stringify(owner))}`;
}

/** What `set` says where there is no place for the value. */
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
