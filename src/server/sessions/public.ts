import { ValiseError } from '../../errors.ts';
import type { Params } from '../../wire/index.ts';
import type { Gated } from './gate.ts';
import type { Session } from './session.ts';
import type { SessionsFamily } from './sessions.ts';

/** What a server's Valise offers for data-layer sessions. */
export interface SessionsApi {
  /**
   * The session of the request whose handler is running, at any depth of calls; undefined where it belongs to none. Throws
   * where the transport's session may stand in, and the store that would know is away.
   *
   * @example
   * ```ts
   * const session = valise.session();
   * session?.namespace('prefs').set('language', 'de');
   * ```
   */
  session(): Session | undefined;
  /**
   * Says which operations need a session: without one they are refused before their handler runs. A text means a tool,
   * a prompt or the URI of a resource, whichever has that name.
   *
   * @example
   * ```ts
   * valise.requireSession('notebook_append', { resource: 'notes://*' });
   * ```
   */
  requireSession(...operations: readonly Gated[]): void;
  /** Sessions from outside a request. */
  readonly sessions: {
    /** Ends a session: from now on nobody knows it. False where it has ended already, or is stored and never was. */
    revoke(id: string): Promise<boolean>;
    /** Tells those who listen to a session, on every instance. */
    notify(id: string, method: string, params?: Params): Promise<void>;
  };
  /**
   * Tells those who listen without a session, on every instance. That a resource was updated is told to those who
   * subscribed to it, each in the session in which they did.
   *
   * @example
   * ```ts
   * await valise.notify('notifications/resources/updated', { uri: 'notes://today' });
   * ```
   */
  notify(method: string, params?: Params): Promise<void>;
}

/** The public face of family S; where it is off, everything says how to turn it on. */
export function sessionsApi(family: SessionsFamily | undefined): SessionsApi {
  const need = (): SessionsFamily => {
    if (family) return family;
    throw new ValiseError('no-sessions', 'This server has no data-layer sessions.', {
      next: "Give createValise the option sessions, such as sessions: { ttl: '4h' }.",
    });
  };
  return {
    session: () => need().session(),
    requireSession: (...operations) => need().require(operations),
    sessions: {
      revoke: async (id) => need().revoke(id),
      notify: async (id, method, params) => need().notify(id, method, params),
    },
    notify: async (method, params) => need().notify(undefined, method, params),
  };
}
