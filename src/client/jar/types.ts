import type { Listener } from '../../core/events.ts';
import type { Json } from '../../core/json.ts';
import type { Attributes, Scope } from '../../wire/index.ts';

/** One entry in the jar. */
export interface JarEntry {
  /** The server that set it: a domain name, or the path of a stdio server. */
  readonly server: string;
  readonly scope: Scope;
  readonly key: string;
  /** The size of the name and of the value as JSON, in bytes. */
  readonly size: number;
  readonly setAt: Date;
  /** When it was last sent with a request. */
  readonly usedAt: Date;
  readonly expiresAt: Date;
  /** The attributes that the server set, or an empty object. */
  readonly attributes: Attributes;
  /** The request whose response set it, for example `tools/call add_item`. Absent for imported entries. */
  readonly setBy?: string;
  /** The version of the extension `dev.valise/state` that it was set with, `MAJOR.MINOR`. Absent means 1.0. */
  readonly version?: string;
  /** The session that it belongs to, if that session is stored. */
  readonly session?: string;
  /** A digest that identifies the user's account at the server. Absent if the account is unknown. */
  readonly account?: string;
  /** True if it arrived over an encrypted connection. It is never sent over an unencrypted one. */
  readonly secure?: true;
  /** The value. Present only if values were requested. */
  readonly value?: Json;
  /**
   * The value's JSON text. Present only if values were requested and `value` cannot represent its numbers exactly. This text is sent.
   */
  readonly text?: string;
}

/** Selects entries. An empty filter selects all of them. An unknown name, or one with the value undefined, is an error. */
export interface JarFilter {
  /** The server's name as in {@link JarEntry.server}, or its URL. */
  readonly server?: string;
  readonly scope?: Scope;
  readonly key?: string;
}

/** A jar as one JSON value. */
export interface JarExport {
  readonly version: 1;
  readonly entries: readonly JarEntry[];
}

/** The result of an import. */
export interface JarImported {
  readonly imported: number;
  /** The entries that were rejected, each with a human-readable reason. */
  readonly refused: readonly { readonly server?: string; readonly key?: string; readonly detail: string }[];
}

/** The entry that an event is about. */
export interface JarSubject {
  readonly server: string;
  readonly scope: Scope;
  readonly key: string;
}

/** Why the jar rejected state. */
export type JarRefusal =
  /** The jar stores no state for this server: an address, localhost, or a name outside the public registries. */
  | 'server'
  /** The key and its value exceed the size limit. */
  | 'too-large'
  /** The message has more names than the limit. */
  | 'too-many'
  /** The value is nested too deeply. */
  | 'too-deep'
  /** The value is not a dictionary, or an attribute has the wrong type. */
  | 'wrong-type'
  /** An attribute has a value that is not allowed, or a number cannot be sent back exactly. */
  | 'bad-value'
  /** The state was set or removed over http, but the same key was set over https. */
  | 'insecure'
  /** The server set a plain value for, or removed, a sealed key of another server in the domain. */
  | 'sibling'
  /** A `server-scope` does not cover the server, is too wide, or came from a stdio server. */
  | 'server-scope'
  /** The response belongs to a request that was sent before the state was cleared. */
  | 'cleared'
  /** The response belongs to a request of a session that is over. */
  | 'session-over';

/** Events of the jar. No event contains a value. */
export interface JarEvents {
  /** Emitted when a server sets an entry. */
  set: JarSubject & { readonly size: number };
  /** Emitted when an entry is deleted: the server removed it, someone cleared it, it expired, or its session ended. */
  deleted: JarSubject & { readonly by: 'server' | 'clear' | 'expiry' | 'session-end' };
  /** Emitted when an entry is evicted because a quota is full. */
  evicted: JarSubject & { readonly quota: 'keysPerServer' | 'keys' };
  /** Emitted when the jar rejects state from a server. The result of the call is delivered anyway. */
  refused: {
    readonly server: string;
    readonly scope?: Scope;
    /** The key, truncated to 1,024 characters. */
    readonly key?: string;
    readonly reason: JarRefusal;
    /** A human-readable reason. */
    readonly detail: string;
  };
}

/** The state that servers have set and this client carries. */
export interface Jar {
  /**
   * Lists the entries that this process knows, by server, scope and key. Includes values only on request.
   *
   * @example
   * ```ts
   * for (const { server, key, size } of valise.jar.list()) console.log(server, key, size);
   * ```
   */
  list(filter?: JarFilter & { readonly values?: boolean | undefined }): JarEntry[];
  /** Lists the entries of one server, with values. */
  show(server: string): JarEntry[];
  /**
   * Deletes entries: all of them, or those of one server, scope or key. They are removed from this process immediately, and
   * from the store when the promise resolves with their number. A response that is still in transit does not restore them.
   */
  clear(filter?: JarFilter): Promise<number>;
  /** Returns all entries with their values, as one JSON value. */
  export(filter?: JarFilter): JarExport;
  /**
   * Imports the result of `export`, which may have been parsed from a file. Checks each entry, and keeps an existing entry
   * that is newer.
   *
   * @example
   * ```ts
   * const { imported, refused } = await valise.jar.import(JSON.parse(await readFile('jar.json', 'utf8')));
   * ```
   */
  import(exported: unknown): Promise<JarImported>;
  /** Loads the changes of other processes. Connecting does this for the server it connects to. */
  refresh(): Promise<void>;
  /** Adds a listener for an event. Returns a function that removes it. */
  on<Name extends keyof JarEvents>(name: Name, listener: Listener<JarEvents[Name]>): () => void;
}

/** Limits of a jar. No quota may be below its minimum. */
export interface JarQuotas {
  /** The maximum size of a name and its value together, in bytes (8,192 by default, at least 4,096). */
  readonly bytesPerKey?: number | undefined;
  /** The maximum number of entries of one server in one scope (50 by default, at least 20). */
  readonly keysPerServer?: number | undefined;
  /** The maximum number of server-scope entries in total (10,000 by default, at least 300). */
  readonly keys?: number | undefined;
}
