import { Events, printWarnings } from '../events.ts';
import { MAX_MESSAGE, type MessageLimit } from '../link/limit.ts';
import type { ContinuityEvents } from './continuity/events.ts';
import type { JarEvents } from './jar/types.ts';
import type { SessionEvents } from './sessions/types.ts';
import type { Target } from './target.ts';

/** What a warning of a client's Valise is about; stable across releases. */
export type ClientWarningCode =
  /** `allowLocal` is on, and state is kept for a server that is no registered domain. */
  | 'local-state'
  /** Jar state could not be read or stored. */
  | 'jar-not-kept'
  /** A data-layer session could not be stored. */
  | 'session-not-kept'
  /** What is known of a connection could not be read, kept or used. */
  | 'connection-not-kept'
  /** A pending question could not be kept or dropped. */
  | 'question-not-kept'
  /** A record of a later release is in the store, and is left as it is. */
  | 'store-newer'
  /** A limit is reached, and what is beyond it is not remembered. */
  | 'limit-reached'
  /** The key of some sign-ins is missing. */
  | 'sign-in-key-missing'
  /** A sealed store holds an entry that was written without keys, and it is not used. */
  | 'plain-entry';

/** What a client's Valise tells; nothing in it is secret. */
export interface ClientEvents extends JarEvents, SessionEvents, ContinuityEvents {
  /**
   * A server sent a message that is larger than `maxBytes`. The rest was not read, and the calls it affects have failed.
   * `server` is a URL without its query, or a command.
   */
  'message-too-large': {
    readonly server?: string;
    readonly what: 'body' | 'event' | 'line';
    readonly maxBytes: number;
  };
  /** Something works, but not as well or not as safely as it could; `next` says what to do about it. Printed if nobody listens. */
  warning: { readonly code: ClientWarningCode; readonly what: string; readonly next: string };
}

/** Event source of a client's Valise. */
export type ClientEventSource = Events<ClientEvents>;

/** An event source of all that a client's Valise tells. */
export function clientEvents(): ClientEventSource {
  const known = {
    set: true,
    deleted: true,
    evicted: true,
    refused: true,
    sessionEnded: true,
    sessionRefused: true,
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

/** The limit for messages from one server; exceeding it emits `message-too-large`. */
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

/** Without the query, which may hold a secret. */
function nameOf(target: Target): string | undefined {
  if (target.kind === 'http') return `${target.url.origin}${target.url.pathname}`;
  return target.kind === 'stdio' ? target.command : undefined;
}
