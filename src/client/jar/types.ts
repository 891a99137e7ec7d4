import type { Listener } from '../../events.ts';
import type { Json } from '../../json.ts';
import type { Attributes, Scope } from '../../wire/index.ts';

/** One piece of state in the jar. */
export interface JarEntry {
  /** The server that set it: a domain name, or the path of a stdio server. */
  readonly server: string;
  readonly scope: Scope;
  readonly key: string;
  /** Bytes of the name and of the value as JSON. */
  readonly size: number;
  readonly setAt: Date;
  /** When it last went with a request. */
  readonly usedAt: Date;
  readonly expiresAt: Date;
  /** As the server gave them; empty where it gave none. */
  readonly attributes: Attributes;
  /** The session that it belongs to, where that session is kept. */
  readonly session?: string;
  /** A digest that stands for the user's account at the server; absent if nothing tells whose it is. */
  readonly account?: string;
  /** True if it came over an encrypted connection: it goes over no other. */
  readonly secure?: true;
  /** Only where it was asked for. */
  readonly value?: Json;
  /** The value's JSON text, if it was asked for and has numbers that `value` cannot hold exactly. It is what is sent. */
  readonly text?: string;
}

/** Which pieces of state are meant; an empty filter means all of them. A name that is unknown or undefined is an error. */
export interface JarFilter {
  /** The server's name as {@link JarEntry.server} gives it, or its URL. */
  readonly server?: string;
  readonly scope?: Scope;
  readonly key?: string;
}

/** A jar as one JSON value. */
export interface JarExport {
  readonly version: 1;
  readonly entries: readonly JarEntry[];
}

/** What has become of the entries of an export. */
export interface JarImported {
  readonly imported: number;
  /** Those that were not taken, and why: a sentence for people. */
  readonly refused: readonly { readonly server?: string; readonly key?: string; readonly detail: string }[];
}

/** Which piece of state an event is about. */
export interface JarSubject {
  readonly server: string;
  readonly scope: Scope;
  readonly key: string;
}

/** Why state was not taken. */
export type JarRefusal =
  /** State may not be kept for this server: an address, localhost, a name outside the public registries. */
  | 'server'
  /** Larger than a key may be. */
  | 'too-large'
  /** More names than are read from one message. */
  | 'too-many'
  /** Nested deeper than is read. */
  | 'too-deep'
  /** Not a dictionary, or an attribute of the wrong type. */
  | 'wrong-type'
  /** An attribute outside what is allowed, or a number that cannot be sent back. */
  | 'bad-value'
  /** Set or removed over http while the same key came over https. */
  | 'insecure'
  /** A plain value, or a removal, for a sealed key that another server of the domain has set. */
  | 'sibling'
  /** A `server-scope` that does not cover the server, that is too wide, or that came from a stdio server. */
  | 'server-scope'
  /** The answer to a request that was sent before the state was cleared. */
  | 'cleared'
  /** The answer to a request of a session that is over. */
  | 'session-over';

/** What a jar tells. No event carries a value. */
export interface JarEvents {
  /** A server set a piece of state. */
  set: JarSubject & { readonly size: number };
  /** A piece of state is gone: the server removed it, somebody cleared it, its time or its session was over. */
  deleted: JarSubject & { readonly by: 'server' | 'clear' | 'expiry' | 'session-end' };
  /** A piece of state had to go because a quota was full. */
  evicted: JarSubject & { readonly quota: 'keysPerServer' | 'keys' };
  /** State that a server sent was not taken; the call's own result arrives all the same. */
  refused: {
    readonly server: string;
    readonly scope?: Scope;
    /** Cut after 1,024 characters. */
    readonly key?: string;
    readonly reason: JarRefusal;
    /** A sentence for people. */
    readonly detail: string;
  };
}

/** The state that servers have set and this client carries. */
export interface Jar {
  /**
   * What the jar holds, as this process knows it, by server, scope and key; values only where asked for.
   *
   * @example
   * ```ts
   * for (const { server, key, size } of valise.jar.list()) console.log(server, key, size);
   * ```
   */
  list(filter?: JarFilter & { readonly values?: boolean | undefined }): JarEntry[];
  /** The state of one server, with values. */
  show(server: string): JarEntry[];
  /**
   * Forgets state: all of it, one server's, one scope, one key. It is gone from this process at once and from the
   * store when the promise resolves, with the number of pieces. An answer still under way does not bring it back.
   */
  clear(filter?: JarFilter): Promise<number>;
  /** Everything with its values, as one JSON value. */
  export(filter?: JarFilter): JarExport;
  /**
   * Takes in what `export` gave, also as parsed from a file. Each entry is checked; what is held already and is newer stays.
   *
   * @example
   * ```ts
   * const { imported, refused } = await valise.jar.import(JSON.parse(await readFile('jar.json', 'utf8')));
   * ```
   */
  import(exported: unknown): Promise<JarImported>;
  /** Reads what other processes have changed. Connecting does this for the server it connects to. */
  refresh(): Promise<void>;
  /** Hears what happens in the jar; the function returned ends it. */
  on<Name extends keyof JarEvents>(name: Name, listener: Listener<JarEvents[Name]>): () => void;
}

/** How much a jar keeps. No quota may be below its floor. */
export interface JarQuotas {
  /** Bytes of a name and its value together (8,192 by default, at least 4,096). */
  readonly bytesPerKey?: number | undefined;
  /** Pieces of state of one server in one scope (50 by default, at least 20). */
  readonly keysPerServer?: number | undefined;
  /** Pieces of server-scope state in all (10,000 by default, at least 300). */
  readonly keys?: number | undefined;
}
