import type { Connection } from '../connection.ts';
import type { LostReason } from './lost.ts';
import type { Snapshot, SnapshotKeeper } from './snapshot.ts';

/** What a connection's continuity works with. */
export interface ContinuityOptions {
  /** The SDK's client. */
  readonly client: object;
  /** Absent where nothing is to be kept. */
  readonly keeper: SnapshotKeeper | undefined;
  /** Where to go on. */
  readonly kept: Snapshot | undefined;
  /** Does the work while no other process does it for this connection. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  /** The transport's session is another one, which later processes find too; undefined where they do not. */
  begun(connection: Connection, sessionId: string | undefined): Promise<void>;
  /** A session that later processes could find is over, or is left for a new one. */
  left(connection: Connection, sessionId: string | undefined): Promise<void>;
  /** Something could not be kept or renewed, and the connection goes on without. */
  warn(what: string, error: unknown): void;
  /** The server did not know the session any more. */
  renewed(reason: LostReason): void;
}
