import { Events } from '../events.ts';
import type { ContinuityEvents } from './continuity/events.ts';
import type { JarEvents } from './jar/types.ts';
import type { SessionEvents } from './sessions/types.ts';

/** What a client's Valise tells; nothing in it is secret. */
export interface ClientEvents extends JarEvents, SessionEvents, ContinuityEvents {
  /** Something works, but not as well or not as safely as it could; `next` says what to do about it. */
  warning: { readonly what: string; readonly next: string };
}

/** Event source of a client's Valise. */
export type ClientEventSource = Events<ClientEvents>;

/** An event source of all that a client's Valise tells. */
export function clientEvents(): ClientEventSource {
  return new Events<ClientEvents>({
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
    warning: true,
  });
}
