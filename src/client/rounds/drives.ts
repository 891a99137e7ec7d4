import type { Id } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import { Drive } from './driver.ts';
import type { PendingStore } from './pending-store.ts';

/** The calls under way that have been asked something, each with what is kept of it. */
export class Drives {
  readonly #pendingStore: PendingStore;
  readonly #all = new WeakMap<Connection, Map<Id, Drive>>();

  constructor(pendingStore: PendingStore) {
    this.#pendingStore = pendingStore;
  }

  /** The one of a call, from its first round on. */
  of(call: Call): Drive {
    const { connection, request } = call;
    const drives = this.#all.get(connection) ?? new Map<Id, Drive>();
    this.#all.set(connection, drives);
    const drive = drives.get(request.id) ?? new Drive(call, this.#pendingStore);
    drives.set(request.id, drive);
    return drive;
  }

  /** Takes out the one of a call that is over; undefined where it was asked nothing. */
  take(connection: Connection, requestId: Id): Drive | undefined {
    const drives = this.#all.get(connection);
    const drive = drives?.get(requestId);
    if (drive) drives?.delete(requestId);
    return drive;
  }

  /** True where a call of the connection is under way in the round of this id. */
  async holds(connection: Connection, id: string): Promise<boolean> {
    for (const drive of this.#all.get(connection)?.values() ?? []) if ((await drive.kept) === id) return true;
    return false;
  }

  /** The connection is gone; what is open is kept for the next one. */
  closed(connection: Connection): void {
    for (const drive of this.#all.get(connection)?.values() ?? []) void drive.cancel(true);
    this.#all.delete(connection);
  }
}
