import type { Notification } from '../../wire/index.ts';

/** Receives a notification: its method and params, with the id of its session in `params._meta`. */
export type NotificationListener = (notification: Notification) => void;

/** Options for {@link ClientSession.listen}. */
export interface ListenOptions {
  /** Resources whose updates are wanted, for servers without `resources/subscribe`. */
  readonly resources?: readonly string[] | undefined;
  /**
   * Polls instead of opening a stream. The server may delay each response by up to `wait` seconds (20 by default).
   * Valise polls automatically if a server or a proxy closes streams.
   */
  readonly poll?: boolean | { readonly wait?: number } | undefined;
  /** Continues after this position: an earlier {@link Listening.cursor}. */
  readonly after?: string | undefined;
  /** Called if notifications were missed and cannot be recovered. Check what has changed. */
  readonly onMissed?: (() => void) | undefined;
}

/** An active listener. If the stream breaks, Valise reopens it and delivers what arrived in between. */
export interface Listening {
  /** The position after the last notification received. Undefined if the server does not report positions. */
  readonly cursor: string | undefined;
  /** Resolves when listening ends, because it was closed here or the session has ended. */
  readonly closed: Promise<void>;
  close(): Promise<void>;
}

/** How a session treats its calls. */
export interface SessionBehaviour {
  /**
   * `parallel` sends calls as they come; an older response never overwrites a newer state. `serial` sends the next call of
   * the session after the previous one has been answered. Defaults to `parallel`.
   */
  readonly ordering?: 'parallel' | 'serial' | undefined;
  /**
   * What happens to a call whose session the server no longer knows. `throw` fails it with {@link SessionGoneError}.
   * `recreate` retries it in a new, empty session that replaces the old one. A call that had already begun is not retried:
   * it fails, and the next call uses the new session. Defaults to `throw`.
   */
  readonly onGone?: 'throw' | 'recreate' | undefined;
}

/** Options for a new session. */
export interface CreateOptions extends SessionBehaviour {
  /** A name for people. A session with a label is stored, and a later process finds it again by the label. */
  readonly label?: string | undefined;
  /** Whether the session is stored. Defaults to true if it has a label. */
  readonly keep?: boolean | undefined;
}

/** A session with a server. */
export interface ClientSession {
  readonly id: string;
  readonly label: string | undefined;
  /** The server's hint for when the session ends. Nothing is rejected because of it. */
  readonly expiresAt: Date | undefined;
  /** Whether the time of the hint has passed. */
  readonly isStale: boolean;
  /** Whether the session is over, for example because the server no longer knows it. It is then never sent again. */
  readonly isGone: boolean;
  /**
   * Runs `work` in this session. Every request that `work` makes to the session's server, at any depth of calls, belongs to
   * the session.
   *
   * @example
   * ```ts
   * await session.run(() => client.callTool({ name: 'notebook_append', arguments: { text: 'hello' } }));
   * ```
   */
  run<Value>(work: () => Value): Value;
  /** Ends the session, so that the server can free its resources. Does nothing if the session is already gone. */
  delete(): Promise<void>;
  /** Creates a session that starts with a copy of this session's state. */
  fork(options?: CreateOptions): Promise<ClientSession>;
  /**
   * Listens to the server's notifications for this session. Resolves once the listener is active.
   *
   * @example
   * ```ts
   * const listening = await session.listen(({ method, params }) => refresh(params?.uri));
   * ```
   */
  listen(listener: NotificationListener, options?: ListenOptions): Promise<Listening>;
}

/** A session as a list shows it. */
export interface SessionListing {
  readonly id: string;
  readonly label: string | undefined;
  readonly expiresAt: Date | undefined;
  readonly isStale: boolean;
  /** Whether this client's store has the session. */
  readonly isKept: boolean;
  /** Whether the server lists the session. A server lists none for users it cannot tell apart, but may still know it. */
  readonly isListed: boolean;
}

/** A session in the store. */
export interface KeptSession {
  readonly id: string;
  readonly label: string | undefined;
  readonly expiresAt: Date | undefined;
  readonly isStale: boolean;
  /** The server that created it: a URL or a command. */
  readonly target: string;
  readonly usedAt: Date;
}

/** The sessions with one server. */
export interface ClientSessions {
  /** Creates a session. */
  create(options?: CreateOptions): Promise<ClientSession>;
  /** Returns the session stored under this label, or creates it. Safe if several processes ask at the same time. */
  named(label: string, behaviour?: SessionBehaviour): Promise<ClientSession>;
  /** Resumes a session that this client has stored or that the server lists. */
  resume(id: string, behaviour?: SessionBehaviour): Promise<ClientSession>;
  /**
   * Recovers a session from the server's own copy, for a client that lost the state or whose state the server rejects. This
   * can bring back a session that was gone. Throws {@link SessionGoneError} if the server does not keep it for this user.
   */
  recover(id: string, behaviour?: SessionBehaviour): Promise<ClientSession>;
  /**
   * Ends a session by its id, whether it is stored here or known only to the server. Returns false if the server does not
   * know it. In both cases it is removed from the store.
   */
  delete(id: string): Promise<boolean>;
  /** Lists the sessions that the server lists for this user and those stored here. A server may not list all it knows. */
  list(): Promise<readonly SessionListing[]>;
  /** Listens to the server's notifications that belong to no session. */
  listen(listener: NotificationListener, options?: ListenOptions): Promise<Listening>;
}

/** The type of `valise.sessions`: the sessions with a client's server, and those in the store. */
export interface SessionsAccess {
  /**
   * Returns the sessions with the server that a client is connected to.
   *
   * @example
   * ```ts
   * const session = await valise.sessions(client).create({ label: 'refactor' });
   * ```
   */
  (client: object): ClientSessions;
  /** Lists the sessions in the store, for all servers of this principal. */
  kept(): Promise<readonly KeptSession[]>;
  /** Removes a session from the store without telling its server. Returns false if it was not there. */
  forget(id: string): Promise<boolean>;
}

/** Events about sessions. No event contains a state. */
export interface SessionEvents {
  /** Emitted when a session is over: the server no longer knows it, it was deleted, or a new one replaced it. */
  'session-ended': {
    readonly server: string;
    readonly label: string | undefined;
    readonly reason: 'gone' | 'deleted' | 'replaced';
  };
  /** Emitted when Valise rejects what a server says about a session. */
  'session-refused': { readonly server: string; readonly label: string | undefined; readonly reason: string };
}
