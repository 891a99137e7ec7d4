import type { Notification } from '../../wire/index.ts';

/** Hears a notification: its method and params, with the id of its session in `params._meta`. */
export type NotificationListener = (notification: Notification) => void;

/** How to listen. */
export interface ListenOptions {
  /** Resources whose updates are wanted; for servers without `resources/subscribe`. */
  readonly resources?: readonly string[] | undefined;
  /**
   * Ask again and again, in place of a stream that stays open; each time the server may wait up to `wait` seconds (20
   * by default). Where a server or a proxy cannot hold a stream, this happens by itself.
   */
  readonly poll?: boolean | { readonly wait?: number } | undefined;
  /** Go on after this position: a {@link Listening.cursor} from before. */
  readonly after?: string | undefined;
  /** Notifications were lost, and nobody can bring them back: look for yourself what has changed. */
  readonly onMissed?: (() => void) | undefined;
}

/** Somebody is listening. Where the stream breaks it is opened again, and what came in between is brought. */
export interface Listening {
  /** The position after what has been heard; undefined where the server knows none. */
  readonly cursor: string | undefined;
  /** Resolves when it is over: closed here, or the session has ended. */
  readonly closed: Promise<void>;
  close(): Promise<void>;
}

/** How a session behaves towards its calls. */
export interface SessionBehaviour {
  /**
   * `parallel` sends calls as they come: an older answer never overwrites a newer state. `serial` sends the next call of
   * the session when the one before has been answered. `parallel` by default.
   */
  readonly ordering?: 'parallel' | 'serial' | undefined;
  /**
   * What happens to a call whose session the server no longer knows: it fails with {@link SessionGoneError}, or it is
   * sent once more in a new, empty session that takes the place of the old one. A call that had begun already is not sent
   * again; it fails, and the next one goes to the new session. `throw` by default.
   */
  readonly onGone?: 'throw' | 'recreate' | undefined;
}

/** Settings of a new session. */
export interface CreateOptions extends SessionBehaviour {
  /** What people call it. A session with a label is kept in the store, and found again by it in a later process. */
  readonly label?: string | undefined;
  /** Whether it is kept in the store; by default, if it has a label. */
  readonly keep?: boolean | undefined;
}

/** A session with a server. */
export interface ClientSession {
  readonly id: string;
  readonly label: string | undefined;
  /** The server's hint for when it ends; nothing is refused because of it. */
  readonly expiresAt: Date | undefined;
  /** True where the hint has passed. */
  readonly isStale: boolean;
  /** True once the server no longer knows it: it is never sent again. */
  readonly isGone: boolean;
  /**
   * Runs `work` in this session: every request to its server from inside, at any depth of calls, belongs to it.
   *
   * @example
   * ```ts
   * await session.run(() => client.callTool({ name: 'notebook_append', arguments: { text: 'hello' } }));
   * ```
   */
  run<Value>(work: () => Value): Value;
  /** Ends it, so that the server can free what it holds. Harmless where it is gone already. */
  delete(): Promise<void>;
  /** A new session that starts with a copy of this one's state. */
  fork(options?: CreateOptions): Promise<ClientSession>;
  /**
   * Hears what the server tells this session; resolves once it does.
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
  /** True where this client's store has it. */
  readonly isKept: boolean;
  /** True where the server lists it. For users that it cannot tell apart it lists none, and may know it all the same. */
  readonly isListed: boolean;
}

/** A session in the store. */
export interface KeptSession {
  readonly id: string;
  readonly label: string | undefined;
  readonly expiresAt: Date | undefined;
  readonly isStale: boolean;
  /** The server that made it: a URL, or a command. */
  readonly target: string;
  readonly usedAt: Date;
}

/** The sessions with one server. */
export interface ClientSessions {
  /** Makes a new one. */
  create(options?: CreateOptions): Promise<ClientSession>;
  /** The one that is kept under this label, or else a new one; also where several processes ask at the same time. */
  named(label: string, behaviour?: SessionBehaviour): Promise<ClientSession>;
  /** Goes on in one that this client keeps, or that the server lists. */
  resume(id: string, behaviour?: SessionBehaviour): Promise<ClientSession>;
  /**
   * Gets a session back from what the server keeps: for a client that lost the state, or whose state the server refuses. A
   * session that was gone may return so. Throws {@link SessionGoneError} if the server does not keep it for this user.
   */
  recover(id: string, behaviour?: SessionBehaviour): Promise<ClientSession>;
  /**
   * Ends one by its id, be it kept here or only known to the server; false where the server does not know it, and
   * whatever was kept of it is gone.
   */
  delete(id: string): Promise<boolean>;
  /** Those that the server lists for this user, and those that are kept here: it need not list all that it knows. */
  list(): Promise<readonly SessionListing[]>;
  /** Hears what the server tells those without a session. */
  listen(listener: NotificationListener, options?: ListenOptions): Promise<Listening>;
}

/** `valise.sessions`: the sessions with a client's server, and those in the store. */
export interface SessionsAccess {
  /**
   * The sessions with the server that a client is connected to.
   *
   * @example
   * ```ts
   * const session = await valise.sessions(client).create({ label: 'refactor' });
   * ```
   */
  (client: object): ClientSessions;
  /** What is in the store, for all servers of this principal. */
  kept(): Promise<readonly KeptSession[]>;
  /** Takes one out of the store, without telling its server; false where it was not there. */
  forget(id: string): Promise<boolean>;
}

/** What happens with sessions. No event has a state in it. */
export interface SessionEvents {
  /** A session is over: the server no longer knows it, or it was deleted; `replaced` where a new one took its place. */
  sessionEnded: {
    readonly server: string;
    readonly label: string | undefined;
    readonly why: 'gone' | 'deleted' | 'replaced';
  };
  /** What a server said about a session was not taken. */
  sessionRefused: { readonly server: string; readonly label: string | undefined; readonly reason: string };
}
