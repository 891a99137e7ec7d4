/** What continuity tells; nothing in it is secret. URLs are without user, password and the values of their query. */
export interface ContinuityEvents {
  /** A connection goes on where an earlier process was. */
  resumed: { readonly target: string };
  /** The server did not know the session, or the protocol version, any more: a new session has begun. */
  renewed: { readonly target: string; readonly reason: 'session-lost' | 'version' };
  /** Another process has sent the user to the sign-in page; this one waits for what comes of it. */
  'sign-in-elsewhere': { readonly target: string };
  /** The user has signed in. */
  'signed-in': { readonly target: string; readonly issuer?: string; readonly expiresAt?: Date };
  /** This process has refreshed the tokens. */
  refreshed: { readonly target: string; readonly issuer?: string; readonly expiresAt?: Date };
}
