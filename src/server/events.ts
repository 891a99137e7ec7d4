import type { Events } from '../events.ts';

/** What a server's Valise tells; nothing in it is secret. */
export interface ServerEvents {
  /** Something that a client sent back was not taken: a seal that does not open, a value that does not fit. */
  rejected: { readonly family: 'state' | 'sessions' | 'rounds'; readonly what: string; readonly reason: string };
  /** Something works, but not as well as it could; `next` says what to do about it. */
  warning: { readonly what: string; readonly next: string };
}

/** Event source of a server's Valise. */
export type ServerEventSource = Events<ServerEvents>;
