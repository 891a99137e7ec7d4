import type { Connection } from '../connection.ts';
import type { Keeping } from './keeping.ts';
import type { LostReason } from './lost.ts';
import type { Snapshot } from './snapshot.ts';

/** The dependencies of `Continuity`. */
export interface ContinuityOptions {
  /** The SDK's client. */
  readonly client: object;
  /** Stores the connection's snapshot for later processes. */
  readonly keeping: Keeping;
  /** The snapshot to resume from. */
  readonly kept: Snapshot | undefined;
  /** Runs `work` while no other process does so for this connection. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  /** Called when a session has started or is resumed. Has the session's id if later processes can find it too. */
  begun(connection: Connection, sessionId: string | undefined): Promise<void>;
  /** Called when a session that later processes could find is over, or is replaced by a new one. */
  left(connection: Connection, sessionId: string | undefined): Promise<void>;
  /** Reports that something could not be renewed or ended. The connection continues without it. */
  warn(what: string, error: unknown): void;
  /** Called when the server no longer knew the session and a new one has started. */
  renewed(reason: LostReason): void;
}
