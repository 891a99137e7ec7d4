/** What continuity tells; nothing in it is secret. */
export interface ContinuityEvents {
  /** A connection goes on where an earlier process was. */
  resumed: { readonly target: string };
  /** The server did not know the session, or the protocol version, any more: a new session has begun. */
  renewed: { readonly target: string; readonly reason: 'session-lost' | 'version' };
}
