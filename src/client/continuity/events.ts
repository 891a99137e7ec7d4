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
