import { ValiseError } from '../../core/errors.ts';
import { memoryStore } from '../../store/memory/store.ts';
import type { Params, Revocation } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import { currentExchange, type Exchange } from '../exchange.ts';
import { faultOn } from '../fault.ts';
import { type Principal, principalKey } from '../principal.ts';
import { DefaultSessions } from './default-sessions.ts';
import { failedWith } from './errors.ts';
import { SessionExpiry } from './expiry.ts';
import { Listeners } from './listen/listeners.ts';
import { NotificationLog } from './listen/notification-log.ts';
import { busBeside, Channel, Notifier } from './listen/notifier.ts';
import { Subscriptions } from './listen/subscriptions.ts';
import { SessionMethods } from './methods.ts';
import { SessionMiddleware } from './middleware.ts';
import { type SessionsOptions, type SessionsSettings, sessionsSettings } from './options.ts';
import { SessionRecords } from './records.ts';
import { type RequiredOperation, RequiredSessions } from './required.ts';
import { SealedBackend } from './sealed-backend.ts';
import type { Session } from './session.ts';
import { SessionIndex } from './session-index.ts';
import { StoredBackend } from './stored-backend.ts';

/** The part of a server's API that is about data-layer sessions. */
export interface SessionsApi {
  /**
   * Returns the session of the request whose handler is running, at any depth of calls, or undefined if there is none.
   *
   * Throws if the client may have a default session and the store that would know is unavailable.
   *
   * @example
   * ```ts
   * const session = valise.session();
   * session?.namespace('prefs').set('language', 'de');
   * ```
   */
  session(): Session | undefined;
  readonly sessions: {
    /**
     * Declares which operations need a session. Without one they are refused before their handler runs.
     *
     * A string means the tool, prompt or resource URI that has this name.
     *
     * @example
     * ```ts
     * valise.sessions.require('notebook_append', { resource: 'notes://*' });
     * ```
     */
    require(...operations: readonly RequiredOperation[]): void;
    /** Ends a session for everybody. Returns false if it has already ended, or if it is a stored session that never existed. */
    revoke(id: string): Promise<boolean>;
    /** Notifies the listeners of a session, on every instance. */
    notify(id: string, method: string, params?: Params): Promise<void>;
  };
  /**
   * Notifies the listeners that have no session, on every instance.
   *
   * An update of a resource is sent to those who subscribed to it, each in the session in which they subscribed.
   *
   * @example
   * ```ts
   * await valise.notify('notifications/resources/updated', { uri: 'notes://today' });
   * ```
   */
  notify(method: string, params?: Params): Promise<void>;
}

/** How much of their limits the sessions of a server use. */
export interface SessionUsage {
  /** The listeners of this process. */
  readonly listeners: number;
  readonly limits: Pick<SessionsSettings, 'maxPerPrincipal' | 'maxAnonymous' | 'maxListeners'>;
}

/** The server side of data-layer sessions. */
export interface SessionsFamily {
  readonly middleware: SessionMiddleware;
  /** How far the end of a session reaches. */
  readonly revocation: Revocation;
  readonly usage: SessionUsage;
  readonly api: SessionsApi;
  /** Whether a call of a tool needs a session, and clients that do not support sessions may get a default one. */
  isRequired(exchange: Exchange, tool: string): boolean;
  /** Ends the default session of a transport session that only its seal proves. */
  endDefault(transportSession: string, principal: Principal | undefined): Promise<void>;
  close(): Promise<void>;
}

/** Creates the server side of sessions. `storeUrl` is the store's URL, if known, since a bus may be at the same place. */
export function createSessions(
  context: ServerContext,
  options: SessionsOptions,
  storeUrl?: string,
): SessionsFamily {
  const { store, name, events, warnOnce } = context;
  const settings = sessionsSettings(options, store !== undefined);
  const place = store ?? memoryStore();
  if (!store && settings.mode === 'stored') warnOfMemory(context);
  const refuse = (id: string, reason: string): void =>
    events.emit('rejected', { family: 'sessions', what: `session ${id.slice(0, 9)}…`, reason });
  const failed = failedWith(faultOn(events), events);

  // The sessions themselves.
  const records = new SessionRecords(place, context, settings);
  const index = new SessionIndex(records, settings);
  const onOver = (id: string): void => void notifier.over(id).catch(() => undefined);
  const expiry = new SessionExpiry({ records, index, settings, isLocal: !store, onOver, warnOnce });
  const stored = new StoredBackend(context, settings, records, expiry);
  const backend = settings.mode === 'stored' ? stored : new SealedBackend(context, settings, records, expiry);
  const defaults = new DefaultSessions({ settings, records, index, expiry, backend: stored });

  // Notifications.
  const isUsable = (id: string, lastUsed?: number): Promise<boolean> => expiry.isUsable(id, lastUsed);
  const channel = new Channel({ name, bus: options.bus ?? busBeside(storeUrl) });
  const log = new NotificationLog(records.store, Math.max(settings.ttl, 86_400));
  const subscriptions = new Subscriptions({ store: records.store, settings, index, isUsable });
  const notifier = new Notifier({ log, channel, subscriptions, isUsable, warnOnce });

  // Requests.
  const required = new RequiredSessions();
  const listeners = new Listeners({
    settings,
    backend,
    expiry,
    required,
    log,
    channel,
    subscriptions,
    notifier,
    polls: store !== undefined && !channel.isShared,
    events,
    refuse,
    failed,
  });
  const methods = new SessionMethods({ settings, records, index, expiry, backend, refuse, failed });
  const middleware = new SessionMiddleware({
    settings,
    backend,
    expiry,
    defaults,
    required,
    methods,
    listeners,
    notifier,
    refuse,
    failed,
    warnOnce,
  });

  return {
    middleware,

    revocation: reach(settings.mode, store !== undefined && !storeUrl?.startsWith('memory:')),

    get usage() {
      const { maxPerPrincipal, maxAnonymous, maxListeners } = settings;
      return { listeners: listeners.count, limits: { maxPerPrincipal, maxAnonymous, maxListeners } };
    },

    api: {
      session() {
        const exchange = currentExchange(context);
        if (!exchange) throw outsideRequest();
        return middleware.handleFor(exchange);
      },
      sessions: {
        require: (...operations) => required.add(operations),
        revoke: async (id) =>
          expiry.end(id, 'revoked', settings.mode === 'sealed' ? sealedRecord(id) : undefined),
        notify: async (id, method, params) => notifier.send(id, method, params),
      },
      notify: async (method, params) => notifier.broadcast(method, params),
    },

    isRequired: (exchange, tool) =>
      settings.implicit &&
      required.includes(exchange, { ...exchange.request, method: 'tools/call', params: { name: tool } }),

    endDefault: (transportSession, principal) => defaults.end(transportSession, principalKey(principal)),

    async close() {
      listeners.close();
      await expiry.close();
      await channel.close();
      if (!store) await place.close();
    },
  };

  /** Returns the record to revoke a sealed session by, since it need not have one. */
  function sealedRecord(id: string) {
    const now = Date.now();
    return {
      id,
      owner: null,
      index: '',
      label: null,
      created: now,
      expires: now + settings.ttl * 1000,
      until: now,
      seq: 0,
      data: null,
      ended: null,
      announced: false,
    };
  }
}

/** Returns the API of a server without sessions. Every method throws an error that tells how to enable them. */
export function noSessions(): SessionsApi {
  const fail = (): never => {
    throw new ValiseError('no-sessions', 'This server has no data-layer sessions.', {
      next: "Give createValise the option sessions, such as sessions: { ttl: '4h' }.",
    });
  };
  return {
    session: fail,
    sessions: { require: fail, revoke: async () => fail(), notify: async () => fail() },
    notify: async () => fail(),
  };
}

/**
 * Returns how far the end of a session reaches.
 *
 * Sealed sessions prove themselves, so only a store that outlives the process can end them everywhere.
 */
function reach(mode: SessionsSettings['mode'], shared: boolean): Revocation {
  return shared || mode === 'stored' ? 'everywhere' : 'expiry';
}

function outsideRequest(): ValiseError {
  return new ValiseError('outside-request', 'valise.session() was called outside of a request.', {
    next: 'Call it inside a handler of a server on which this Valise is installed.',
  });
}

/** Defers the warning, so that listeners added right after `createValise` receive it too. */
function warnOfMemory({ warnOnce }: ServerContext): void {
  queueMicrotask(() =>
    warnOnce('sessions-in-memory', {
      what: 'Sessions are stored (mode: stored), but there is no store. They are only in the memory of this process.',
      next: "Give createValise a store, such as store: 'sqlite:./state.db'; or use sessions: { mode: 'sealed' }.",
    }),
  );
}
