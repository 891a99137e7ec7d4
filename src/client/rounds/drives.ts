import type { Id } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import { Drive } from './driver.ts';
import type { PendingStore } from './pending-store.ts';

/** The calls in progress that have been asked something, each with its stored round. */
export class Drives {
  readonly #pendingStore: PendingStore;
  readonly #all = new WeakMap<Connection, Map<Id, Drive>>();

  constructor(pendingStore: PendingStore) {
    this.#pendingStore = pendingStore;
  }

  /** Returns the drive of a call, and creates it on the call's first round. */
  of(call: Call): Drive {
    const { connection, request } = call;
    const drives = this.#all.get(connection) ?? new Map<Id, Drive>();
    this.#all.set(connection, drives);
    const drive = drives.get(request.id) ?? new Drive(call, this.#pendingStore);
    drives.set(request.id, drive);
    return drive;
  }

  /** Removes and returns the drive of a call that is over. Returns undefined if the call was never asked anything. */
  take(connection: Connection, requestId: Id): Drive | undefined {
    const drives = this.#all.get(connection);
    const drive = drives?.get(requestId);
    if (drive) drives?.delete(requestId);
    return drive;
  }

  /** Whether a call of the connection is in progress in the round with this id. */
  async holds(connection: Connection, id: string): Promise<boolean> {
    for (const drive of this.#all.get(connection)?.values() ?? []) if ((await drive.kept) === id) return true;
    return false;
  }

  /** Cancels the drives of a closed connection. Open rounds stay in the store for the next connection. */
  closed(connection: Connection): void {
    for (const drive of this.#all.get(connection)?.values() ?? []) void drive.cancel(true);
    this.#all.delete(connection);
  }
}
