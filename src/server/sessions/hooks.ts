import type { Principal } from '../principal.ts';
import type { SessionValues } from './session.ts';

/** A session that is about to begin. What is set here is its first state. */
export interface NewSession extends SessionValues {
  readonly id: string;
  readonly label: string | undefined;
  readonly expiresAt: Date;
  /** True where it stands in for the transport's own session. */
  readonly implicit: boolean;
  /** The session it was forked from, whose state it starts with. */
  readonly parent: string | undefined;
  namespace(name: string): SessionValues;
}

/** Somebody who wants to listen. */
export interface NewListener {
  /** Who it is, where that is known. */
  readonly principal: Principal | undefined;
  /** The id of the session whose notifications are wanted; undefined for those that belong to none. */
  readonly session: string | undefined;
  /** The resources whose updates are wanted too. */
  readonly resources: readonly string[];
}

/** Why a session ended. */
export type EndReason =
  /** The client deleted it. */
  | 'deleted'
  /** The server took it back. */
  | 'revoked'
  /** Its time was over. */
  | 'expired'
  /** Its owner had too many. */
  | 'evicted'
  /** The connection that it stood for closed. */
  | 'closed';

/** A session that has ended. */
export interface EndedSession {
  readonly id: string;
  readonly label: string | undefined;
  readonly reason: EndReason;
  /** What its own state held under a key at the end; only where the server stores it, since a sealed one is with the client. */
  get(key: string): unknown;
}
