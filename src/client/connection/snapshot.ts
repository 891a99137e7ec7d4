import { randomUUID } from 'node:crypto';
import { isObject } from '../../core/json.ts';
import { clock } from '../../store/kit/clock.ts';
import {
  type Collection,
  collection,
  type Found,
  isNewer,
  type Members,
  type Schema,
} from '../../store/kit/collection.ts';
import { isRunning, ownProcess, type ProcessMark } from '../../store/kit/process.ts';
import type { Store } from '../../store/types.ts';
import { CODECS, type Codec, codecNamed } from '../../wire/codec.ts';
import { CORE, isSessionId, type Meta, type Params, type Result, readAnnounced } from '../../wire/index.ts';
import type { Connection } from '../connection.ts';
import type { Account } from '../identity/account.ts';
import { type ConnectionId, keyOf } from '../identity/target.ts';

/** What a client stores of a connection, so that its next process can resume it. */
export interface Snapshot {
  readonly codec: Codec;
  /** The `initialize` or `server/discover` result as received: version, capabilities, server info, instructions. */
  readonly introduction: Result;
  readonly protocolVersion: string;
  /** The families that Valise announced in `initialize`. Absent if not recorded. */
  readonly announced?: string;
  /** The capabilities in `initialize` that let the server send requests to the client. Absent if not recorded. */
  readonly askable?: string;
  /** The account that it was made for; see `Account`. Absent if a host has filled it in, in which case any account may use it. */
  readonly account?: string;
  /** The id of the transport's session, if the server gave one. */
  readonly sessionId?: string;
  /** The position of that session's standalone stream. */
  readonly lastEventId?: string;
  /** When the server introduced itself, in milliseconds since 1970. */
  readonly savedAt: number;
  /** The process that uses the session alone. */
  readonly holder?: Owner;
}

/** A process that uses a session alone. A lease would outlive a killed process, and its replacement must not wait. */
interface Owner extends ProcessMark {
  /** Distinguishes the connections of one process. */
  readonly connection: string;
  /** When the process last took the session, in milliseconds since 1970. */
  readonly at: number;
}

/** How long a process that is known only by its id uses a session alone, in milliseconds. It renews that in time. */
const OWNER_MS = 600_000;

const MAX_BYTES = 1024 * 1024;
const DAY = 24 * 60 * 60 * 1000;

/** Why {@link SnapshotKeeper.save} has stored nothing. */
const TOO_LARGE = 'the introduction of the server is larger than 1 MiB.';
const NOT_STORED = 'another process has stored one first, or uses the stored one with other capabilities.';
const FORGET = 'The connection works. To store its session, forget the other one: connections.forget.';

/** The schema of snapshots. {@link readSnapshot} checks the contents. */
export const SNAPSHOTS: Schema<Members> = { kind: 'connection record', version: 1, read: (record) => record };

/** Settings of {@link SnapshotKeeper}. */
export interface SnapshotSettings {
  /** The account to read and write snapshots for. By default, reads those of every account. */
  readonly account?: Account;
  /** Whether a stored session is used by one process at a time. */
  readonly isAlone?: boolean;
  /** Called if something could not be stored. The connection continues without it. */
  warn?(what: string, error: unknown, next?: string): void;
}

/** Stores one snapshot per target, principal and codec. It is one entry, so it is replaced atomically. */
export class SnapshotKeeper {
  readonly #store: Store;
  readonly #records: Collection<Members>;
  readonly #id: ConnectionId;
  readonly #key: string;
  readonly #settings: SnapshotSettings;
  readonly #seen = new Map<Codec, Snapshot>();
  readonly #connection = randomUUID();
  /** The session that this connection uses alone. */
  #owned: Snapshot | undefined;
  #taking: Promise<void> | undefined;
  #stopRenewing: (() => void) | undefined;

  constructor(store: Store, id: ConnectionId, settings: SnapshotSettings = {}) {
    this.#store = store;
    this.#records = collection(store, '', SNAPSHOTS);
    this.#settings = settings;
    this.#id = id;
    this.#key = keyOf('connection', id);
  }

  /** Loads the snapshot. Returns undefined also if it is damaged or from a later release, which only costs one `initialize`. */
  async load(codec: Codec): Promise<Snapshot | undefined> {
    const found = await this.#records.get(this.#at(codec)).catch(unlessNewer);
    const { snapshot } = this.#read(codec, found);
    if (snapshot) this.#seen.set(codec, snapshot);
    else this.#seen.delete(codec);
    return snapshot;
  }

  /** Returns the snapshot as last loaded. */
  seen(codec: Codec): Snapshot | undefined {
    return this.#seen.get(codec);
  }

  /** Returns the latest snapshot of these revisions. */
  async latest(codecs: readonly Codec[]): Promise<Snapshot | undefined> {
    const stored = await Promise.all(codecs.map((codec) => this.load(codec)));
    return stored.reduce(
      (best, one) => (one && (!best || one.savedAt > best.savedAt) ? one : best),
      undefined,
    );
  }

  /**
   * Replaces the stored snapshot, and returns whether it did. Does not store a snapshot that is too large. Does not replace a
   * session that another process has started since this one looked, or that a client with other askable capabilities uses.
   */
  async save(snapshot: Snapshot): Promise<boolean> {
    const { codec } = snapshot;
    const value = this.#record({ ...snapshot, ...this.#owner(snapshot) });
    const fits = Buffer.byteLength(JSON.stringify(value)) <= MAX_BYTES;
    let refusal: 'used' | 'others' | undefined;
    const written = await this.#try('The introduction of the server could not be stored', () =>
      this.#records.update(this.#at(codec), (found) => {
        const { snapshot: now } = this.#read(codec, found);
        const isOthers =
          now?.sessionId !== this.#seen.get(codec)?.sessionId || now?.askable !== snapshot.askable;
        const isRefused = now?.sessionId !== undefined && isOthers;
        refusal = isRefused ? (this.#isUsed(now) ? 'used' : 'others') : undefined;
        if (isRefused) return undefined;
        return fits ? value : null;
      }),
    );
    if (typeof written === 'string') {
      this.#seen.set(codec, snapshot);
      this.#own(snapshot);
      return true;
    }
    if (refusal === 'others' && snapshot.sessionId !== undefined)
      this.#settings.warn?.('Its session ends with this connection', NOT_STORED, FORGET);
    else if (!refusal && !fits) this.#settings.warn?.('The next process has to connect again', TOO_LARGE);
    return false;
  }

  /** Updates the stored snapshot, unless another process has replaced that session meanwhile. */
  async update(snapshot: Snapshot, change: Partial<Snapshot>): Promise<void> {
    await this.#try('The position in the stream could not be stored', () =>
      this.#edit(snapshot, (stored) => ({ ...stored, ...change })),
    );
  }

  /** Deletes a session that is over. One that another process has started since stays. */
  async clear(gone: Snapshot | undefined): Promise<void> {
    if (!gone) return;
    await this.#try('The session could not be deleted from the store', () =>
      this.#records.update(this.#at(gone.codec), (found) => {
        const { snapshot: stored, isOthers } = this.#read(gone.codec, found);
        return found && !isOthers && (!stored || isSame(stored, gone)) ? null : undefined;
      }),
    );
  }

  /** Takes a stored session for this connection. Resolves to false if another process uses it alone. */
  async take(snapshot: Snapshot): Promise<boolean> {
    if (!this.#settings.isAlone || snapshot.sessionId === undefined) return true;
    let isUsed = false;
    const taken = (stored: Snapshot): Snapshot | undefined => {
      isUsed = this.#isUsed(stored);
      return isUsed ? undefined : { ...stored, ...this.#owner(snapshot) };
    };
    // If the store fails, nobody has it.
    this.#taking = this.#edit(snapshot, taken)
      .catch(() => undefined)
      .then(() => {
        if (!isUsed) this.#own(snapshot);
      });
    await this.#taking;
    return !isUsed;
  }

  /** Leaves the session to other processes. */
  async release(): Promise<void> {
    await this.#taking;
    const owned = this.#owned;
    this.#owned = undefined;
    this.#stopRenewing?.();
    const released = ({ holder, ...rest }: Snapshot): Snapshot | undefined =>
      holder?.connection === this.#connection ? rest : undefined;
    // If it cannot be released, it ends with the process.
    if (owned) await this.#edit(owned, released).catch(() => undefined);
  }

  /** Deletes everything. Returns true if there was anything. */
  async forget(): Promise<boolean> {
    const gone = await Promise.all(Object.values(CODECS).map((codec) => this.#store.delete(this.#at(codec))));
    return gone.includes(true);
  }

  /** Assigns the stored snapshots to the account that the user has signed in to during the connection. */
  async claim(): Promise<void> {
    await Promise.all([...this.#seen.values()].map((snapshot) => this.#edit(snapshot, (stored) => stored)));
  }

  async #edit(snapshot: Snapshot, edit: (stored: Snapshot) => Snapshot | undefined): Promise<void> {
    const { codec } = snapshot;
    await this.#records.update(this.#at(codec), (found) => {
      const { snapshot: stored } = this.#read(codec, found);
      const edited = stored && isSame(stored, snapshot) ? edit(stored) : undefined;
      return edited && this.#record(edited);
    });
  }

  /** Returns the record to store. */
  #record({ codec, ...snapshot }: Snapshot): Members {
    const { account } = this.#settings;
    return { ...this.#id, era: codec.era, ...snapshot, ...(account && { account: account.name }) };
  }

  async #try<T>(what: string, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      this.#settings.warn?.(what, error);
      return undefined;
    }
  }

  #owner({ sessionId }: Snapshot): Pick<Snapshot, 'holder'> {
    if (!this.#settings.isAlone || sessionId === undefined) return {};
    return { holder: { ...ownProcess(), connection: this.#connection, at: Date.now() } };
  }

  #isUsed({ holder }: Snapshot): boolean {
    if (!this.#settings.isAlone || !holder || holder.pid === ownProcess().pid) return false;
    return isRunning(holder) === true && (holder.started !== '0' || Date.now() - holder.at < OWNER_MS);
  }

  /** Records that this connection uses the session alone, until it is released. */
  #own(snapshot: Snapshot): void {
    if (!this.#settings.isAlone || snapshot.sessionId === undefined) return;
    this.#owned = snapshot;
    this.#stopRenewing?.();
    // The system tells nothing but the id of a process, which may be used again.
    if (ownProcess().started === '0')
      this.#stopRenewing = clock.every(OWNER_MS / 3, () => void this.take(snapshot));
  }

  #at({ era }: Codec): string {
    return `${this.#key}/${era}`;
  }

  #read(
    codec: Codec,
    found: Found<Members> | undefined,
  ): { readonly snapshot?: Snapshot | undefined; readonly isOthers?: true } {
    const snapshot = readSnapshot(found?.value);
    if (snapshot?.account !== undefined && this.#settings.account?.owns(snapshot.account) === false)
      return { isOthers: true };
    return { snapshot: snapshot?.codec === codec ? snapshot : undefined };
  }
}

/** Ignores a record of a later release. An attempt to replace it throws. */
function unlessNewer(error: unknown): undefined {
  if (!isNewer(error)) throw error;
}

/** Whether two snapshots belong to one session. */
export function isSame(one: Snapshot, other: Snapshot): boolean {
  return one.sessionId === other.sessionId && one.savedAt === other.savedAt;
}

/** Whether a snapshot without a session is too old. Asking again costs one round trip and loses no state. */
export function isStale({ sessionId, savedAt }: Snapshot): boolean {
  return sessionId === undefined && Date.now() - savedAt > DAY;
}

/** Reads a snapshot from a store. Returns undefined if it is not one. */
export function readSnapshot(value: unknown): Snapshot | undefined {
  if (!isObject(value)) return undefined;
  const codec = codecNamed(value['era']);
  const {
    introduction,
    protocolVersion,
    announced,
    askable,
    account,
    sessionId,
    lastEventId,
    savedAt,
    over,
    holder,
  } = value;
  if (!codec || !isObject(introduction)) return undefined;
  // The session was removed but the server's introduction was not, so there is nothing to resume.
  if (typeof protocolVersion !== 'string' || over === true) return undefined;
  return {
    codec,
    introduction: introduction as Result,
    protocolVersion,
    savedAt: typeof savedAt === 'number' ? savedAt : 0,
    ...(typeof announced === 'string' && { announced }),
    ...(typeof askable === 'string' && { askable }),
    ...(typeof account === 'string' && { account }),
    ...(isSessionId(sessionId) && { sessionId }),
    ...(typeof lastEventId === 'string' && { lastEventId }),
    ...(isOwner(holder) && { holder }),
  };
}

function isOwner(value: unknown): value is Owner {
  if (!isObject(value)) return false;
  const { host, pid, started, connection, at } = value;
  return (
    [host, started, connection].every((one) => typeof one === 'string') &&
    [pid, at].every((one) => typeof one === 'number')
  );
}

/**
 * Returns the families that `initialize` announces. The server relies on them for the whole session: it sends no state to a
 * client that did not announce the jar.
 */
function announcedIn(initialize: Params): string {
  return JSON.stringify(readAnnounced(initialize['capabilities']));
}

/** Returns the capabilities in `initialize` that let the server send requests to this client. */
function askableIn(initialize: Params): string {
  const capabilities = initialize['capabilities'] as Readonly<Record<string, unknown>> | undefined;
  return JSON.stringify(
    ['elicitation', 'sampling', 'roots', 'tasks'].map((name) => capabilities?.[name] ?? null),
  );
}

/** Whether the server of a session may ask exactly what this client supports. */
export function isAskedRight({ askable }: Snapshot, initialize: Params): boolean {
  return askable === undefined || askable === askableIn(initialize);
}

/** Whether the server of a session knows what this client supports. */
export function isToldOf(snapshot: Snapshot, initialize: Params): boolean {
  const { announced } = snapshot;
  return (
    (announced === undefined || announced === announcedIn(initialize)) && isAskedRight(snapshot, initialize)
  );
}

/** Returns the snapshot of an `initialize` result. `asked` are the request's params. */
export function initialized(
  codec: Codec,
  result: Result,
  sessionId: string | undefined,
  asked: Params,
): Snapshot {
  return {
    codec,
    introduction: withoutMeta(result),
    protocolVersion: String(result['protocolVersion']),
    announced: announcedIn(asked),
    askable: askableIn(asked),
    savedAt: Date.now(),
    ...(sessionId !== undefined && { sessionId }),
  };
}

/** Returns the snapshot of a `server/discover` result. `asked` is the request's `_meta`. */
export function discovered(codec: Codec, result: Result, asked: Meta | undefined): Snapshot {
  const info = result._meta?.[CORE.serverInfo];
  return {
    codec,
    introduction: {
      ...withoutMeta(result),
      ...(info !== undefined && { _meta: { [CORE.serverInfo]: info } }),
    },
    protocolVersion: String(asked?.[CORE.protocolVersion]),
    savedAt: Date.now(),
  };
}

/** Removes `_meta`: its state and sessions were for the process that received the result. */
function withoutMeta({ _meta: _, ...result }: Result): Result {
  return result;
}

/**
 * Updates the client's getters to the server's new `initialize` result, because the server may have another version now.
 * Both SDK majors use the same field names, and offer no other way to change them on an open connection.
 */
export function introduceAnew(
  client: object,
  connection: Connection,
  { introduction, protocolVersion }: Snapshot,
): void {
  connection.server.introduce(introduction);
  const known: Readonly<Record<string, unknown>> = {
    _serverCapabilities: introduction['capabilities'],
    _serverVersion: introduction['serverInfo'],
    _instructions: introduction['instructions'],
    _negotiatedProtocolVersion: protocolVersion,
  };
  for (const name in known) if (name in client) Object.assign(client, { [name]: known[name] });
}
