import type { Connection } from '../connection.ts';
import type { Keeping } from './keeping.ts';
import type { LostReason } from './lost.ts';
import type { Snapshot } from './snapshot.ts';

/** What a connection's continuity works with. */
export interface ContinuityOptions {
  /** The SDK's client. */
  readonly client: object;
  /** What is left for later processes. */
  readonly keeping: Keeping;
  /** Where to go on. */
  readonly kept: Snapshot | undefined;
  /** Does the work while no other process does it for this connection. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  /** A session has begun or goes on; its id if later processes find it too. */
  begun(connection: Connection, sessionId: string | undefined): Promise<void>;
  /** A session that later processes could find is over, or is left for a new one. */
  left(connection: Connection, sessionId: string | undefined): Promise<void>;
  /** Something could not be renewed or ended, and the connection goes on without. */
  warn(what: string, error: unknown): void;
  /** The server did not know the session any more. */
  renewed(reason: LostReason): void;
}
