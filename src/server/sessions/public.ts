import { ValiseError } from '../../errors.ts';
import type { Params } from '../../wire/index.ts';
import type { Gated } from './gate.ts';
import type { Session } from './session.ts';
import type { SessionsFamily } from './sessions.ts';

/** The part of a server's API that is about data-layer sessions. */
export interface SessionsApi {
  /**
   * Returns the session of the request whose handler is running, at any depth of calls, or undefined if there is none.
   *
   * Throws if the transport's session may stand in and the store that would know is unavailable.
   *
   * @example
   * ```ts
   * const session = valise.session();
   * session?.namespace('prefs').set('language', 'de');
   * ```
   */
  session(): Session | undefined;
  readonly sessions: {
    /**
     * Declares which operations need a session. Without one they are refused before their handler runs.
     *
     * A string means the tool, prompt or resource URI that has this name.
     *
     * @example
     * ```ts
     * valise.sessions.require('notebook_append', { resource: 'notes://*' });
     * ```
     */
    require(...operations: readonly Gated[]): void;
    /** Ends a session for everybody. Returns false if it has already ended, or if it is a stored session that never existed. */
    revoke(id: string): Promise<boolean>;
    /** Notifies the listeners of a session, on every instance. */
    notify(id: string, method: string, params?: Params): Promise<void>;
  };
  /**
   * Notifies the listeners that have no session, on every instance.
   *
   * An update of a resource is sent to those who subscribed to it, each in the session in which they subscribed.
   *
   * @example
   * ```ts
   * await valise.notify('notifications/resources/updated', { uri: 'notes://today' });
   * ```
   */
  notify(method: string, params?: Params): Promise<void>;
}

/** Creates the public API of sessions. If sessions are disabled, every method throws an error that tells how to enable them. */
export function sessionsApi(family: SessionsFamily | undefined): SessionsApi {
  const need = (): SessionsFamily => {
    if (family) return family;
    throw new ValiseError('no-sessions', 'This server has no data-layer sessions.', {
      next: "Give createValise the option sessions, such as sessions: { ttl: '4h' }.",
    });
  };
  return {
    session: () => need().session(),
    sessions: {
      require: (...operations) => need().require(operations),
      revoke: async (id) => need().revoke(id),
      notify: async (id, method, params) => need().notify(id, method, params),
    },
    notify: async (method, params) => need().notify(undefined, method, params),
  };
}
