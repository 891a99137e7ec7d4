import type { Principal } from '../principal.ts';
import type { SessionValues } from './session.ts';

/** A session that is about to begin. Values set here are its first state. */
export interface NewSession extends SessionValues {
  readonly id: string;
  readonly label: string | undefined;
  readonly expiresAt: Date;
  /** Whether it stands in for the transport's own session. */
  readonly implicit: boolean;
  /** The id of the session that it was forked from, whose state it starts with. */
  readonly parent: string | undefined;
  namespace(name: string): SessionValues;
}

/** A client that wants to listen. */
export interface NewListener {
  /** The principal, if known. */
  readonly principal: Principal | undefined;
  /** The id of the session whose notifications are requested, or undefined for those that belong to no session. */
  readonly session: string | undefined;
  /** The resources whose updates are requested too. */
  readonly resources: readonly string[];
}

/** Why a session ended. */
export type EndReason =
  /** The client deleted it. */
  | 'deleted'
  /** The server revoked it. */
  | 'revoked'
  /** Its lifetime was over. */
  | 'expired'
  /** Its owner had too many sessions. */
  | 'evicted'
  /** The connection that it stood in for closed. */
  | 'closed';

/** A session that has ended. */
export interface EndedSession {
  readonly id: string;
  readonly label: string | undefined;
  readonly reason: EndReason;
  /** Returns a value of the session's own final state. Only stored sessions have one, since sealed state is with the client. */
  get(key: string): unknown;
}
