import { Events, printWarnings } from '../core/events.ts';
import { MAX_MESSAGE, type MessageLimit } from '../edge/limit.ts';
import type { Target } from './identity/target.ts';
import type { JarEvents } from './jar/types.ts';
import type { SessionEvents } from './sessions/types.ts';

/** The code of a client warning. Codes are stable across releases. */
export type ClientWarningCode =
  /** `allowLocal` is on, and state is kept for a server that is not a registered domain. */
  | 'local-state'
  /** Jar state could not be read or stored. */
  | 'jar-not-kept'
  /** A data-layer session could not be stored. */
  | 'session-not-kept'
  /** The snapshot of a connection could not be read, stored or used. */
  | 'connection-not-kept'
  /** A pending question could not be stored or dropped. */
  | 'question-not-kept'
  /** The store has a record of a later release, which is left unchanged. */
  | 'store-newer'
  /** A limit is reached, and what exceeds it is not remembered. */
  | 'limit-reached'
  /** The key of some sign-ins is missing. */
  | 'sign-in-key-missing'
  /** A sealed store has an entry that was written without keys, and it is not used. */
  | 'plain-entry';

/** The events of a client's Valise. They contain no secrets. */
export interface ClientEvents extends JarEvents, SessionEvents, ContinuityEvents {
  /**
   * Emitted when a server sends a message larger than `maxBytes`. The rest was not read, and the affected calls have
   * failed. `server` is a URL without its query, or a command.
   */
  'message-too-large': {
    readonly server?: string;
    readonly what: 'body' | 'event' | 'line';
    readonly maxBytes: number;
  };
  /**
   * Emitted when something works, but not as well or as safely as it could. `next` says what to do. Printed if there is no
   * listener.
   */
  warning: { readonly code: ClientWarningCode; readonly what: string; readonly next: string };
}

/** The event source of a client's Valise. */
export type ClientEventSource = Events<ClientEvents>;

/** Creates the event source of a client's Valise. */
export function clientEvents(): ClientEventSource {
  const known = {
    set: true,
    deleted: true,
    evicted: true,
    refused: true,
    'session-ended': true,
    'session-refused': true,
    resumed: true,
    renewed: true,
    'sign-in-elsewhere': true,
    'signed-in': true,
    refreshed: true,
    'message-too-large': true,
    warning: true,
  };
  return new Events<ClientEvents>(known, { warning: printWarnings() });
}

/** Returns the limit for messages from one server. Exceeding it emits `message-too-large`. */
export function messageLimit(
  events: ClientEventSource,
  target: Target,
  maxBytes = MAX_MESSAGE,
): MessageLimit {
  const server = nameOf(target);
  return {
    maxBytes,
    exceeded: (what, max) =>
      events.emit('message-too-large', { ...(server !== undefined && { server }), what, maxBytes: max }),
  };
}

/** Returns the target's name without the query, which may contain a secret. */
function nameOf(target: Target): string | undefined {
  if (target.kind === 'http') return `${target.url.origin}${target.url.pathname}`;
  return target.kind === 'stdio' ? target.command : undefined;
}

/** Events of continuity. They contain no secrets: URLs have no user, no password and no query values. */
export interface ContinuityEvents {
  /** Emitted when a connection resumes the session of an earlier process. */
  resumed: { readonly target: string };
  /** Emitted when the server no longer knew the session or the protocol version, and a new session has started. */
  renewed: { readonly target: string; readonly reason: 'session-lost' | 'version' };
  /** Emitted when another process has sent the user to the sign-in page. This process waits for the outcome. */
  'sign-in-elsewhere': { readonly target: string };
  /** Emitted when the user has signed in. */
  'signed-in': { readonly target: string; readonly issuer?: string; readonly expiresAt?: Date };
  /** Emitted when this process has refreshed the tokens. */
  refreshed: { readonly target: string; readonly issuer?: string; readonly expiresAt?: Date };
}
