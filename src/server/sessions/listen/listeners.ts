import { ValiseError } from '../../../core/errors.ts';
import type { TransportLike } from '../../../core/instrument.ts';
import {
  isProblem,
  knowsSessionExtension,
  type ListenRequest,
  type Notification,
  pollResult,
  type Result,
  readListenParams,
  sessionNotFound,
  sessionRequired,
  tagNotification,
} from '../../../wire/index.ts';
import type { ServerContext } from '../../context.ts';
import type { Exchange, Reply, ServerLink } from '../../exchange.ts';
import { type Exceeded, Quota } from '../../quota.ts';
import { isRefusal, type Requester, type SessionBackend } from '../backend.ts';
import { type Failed, invalid } from '../errors.ts';
import type { SessionExpiry } from '../expiry.ts';
import type { SessionsSettings } from '../options.ts';
import type { RequiredSessions } from '../required.ts';
import { type Audience, Listener, MAX_WAITING, wantedBy } from './listener.ts';
import { cursorOf, type NotificationLog, since } from './notification-log.ts';
import type { Channel, Notifier, Signal } from './notifier.ts';
import type { Subscriptions } from './subscriptions.ts';

/** Options of {@link Listeners}. */
export interface ListenersOptions {
  readonly settings: Pick<SessionsSettings, 'maxListeners' | 'maxListenersPerCaller' | 'mayListen'>;
  readonly backend: SessionBackend;
  readonly expiry: SessionExpiry;
  readonly required: RequiredSessions;
  readonly log: NotificationLog;
  readonly channel: Channel;
  readonly subscriptions: Subscriptions;
  readonly notifier: Notifier;
  /** Whether instances share a store but no bus. The log is then polled. */
  readonly polls: boolean;
  readonly events: ServerContext['events'];
  /** Reports why a session was refused. */
  readonly refuse: (id: string, reason: string) => void;
  readonly failed: Failed;
}

/** An open listener, and how to end it. */
interface Open {
  readonly link: ServerLink;
  /** The scope of a stream, or undefined for a poll. */
  readonly scope?: string;
  end(): void;
}

const BEAT = 15_000;
const POLL = 1000;

/** The listeners of this instance. */
export class Listeners {
  readonly #options: ListenersOptions;
  readonly #open = new Set<Open>();
  readonly #places: Quota;

  constructor(options: ListenersOptions) {
    this.#options = options;
    const { maxListeners, maxListenersPerCaller } = options.settings;
    this.#places = new Quota({
      perCaller: { count: maxListenersPerCaller },
      total: { count: maxListeners },
    });
  }

  /** The number of listeners that are open now. */
  get count(): number {
    return this.#places.count;
  }

  /** Answers a listen request once it is over: with the result of a poll, at the end of a stream, or with an error. */
  async receive(exchange: Exchange, requester: Requester): Promise<Reply> {
    const asked = readListenParams(exchange.request.params);
    if (isProblem(asked)) return invalid(asked);
    // The place is taken before anything is awaited, so that concurrent requests cannot exceed the limit.
    const leave = this.#places.take(requester.caller);
    if (typeof leave !== 'function') return { error: this.#options.failed(this.#tooMany(leave)) };
    try {
      return await this.#receive(exchange, requester, asked);
    } catch (error) {
      return { error: this.#options.failed(error) };
    } finally {
      leave();
    }
  }

  /**
   * Returns why a client may not listen to a session (or, without one, to what belongs to none) and to resources.
   *
   * Returns undefined if it may.
   */
  async admit(
    exchange: Exchange,
    session: string | undefined,
    resources: readonly string[],
  ): Promise<Reply | undefined> {
    const { required, settings } = this.#options;
    const needsSession = (uri: string): boolean =>
      required.includes(exchange, { ...exchange.request, method: 'resources/subscribe', params: { uri } });
    // A subscriber may get a default session; the middleware handles that.
    const isOnItsOwn = session === undefined && exchange.method !== 'resources/subscribe';
    if (isOnItsOwn && resources.some(needsSession))
      return { error: sessionRequired(exchange.spelling.sessions) };
    const { mayListen } = settings;
    if (mayListen && (await mayListen({ principal: exchange.principal, session, resources })) !== true)
      throw accessDenied();
    return undefined;
  }

  async #receive(exchange: Exchange, requester: Requester, asked: ListenRequest): Promise<Reply> {
    const { backend, refuse, subscriptions, notifier } = this.#options;
    const opened = asked.session && (await backend.open(asked.session, requester));
    if (asked.session && opened && isRefusal(opened)) {
      const { sessionId } = asked.session;
      refuse(sessionId, opened.refused);
      return { error: sessionNotFound(exchange.spelling.sessions, sessionId) };
    }
    const session = opened && !isRefusal(opened) ? opened.record.id : undefined;
    const { resources = [] } = asked;
    const refused = await this.admit(exchange, session, resources);
    if (refused) return refused;
    const audience = { scope: session ?? '', owner: requester.index, resources };
    if (resources.length > 0) {
      const subscriber = subscriptions.subscriberOf(exchange, audience.scope);
      await subscriptions.add(resources, subscriber);
      notifier.follow(exchange, subscriber);
    }
    if (asked.poll) return { result: await this.#poll(exchange, asked, audience) };
    await this.#stream(exchange, asked, audience);
    return { result: {} };
  }

  #tooMany(exceeded: Exceeded): ValiseError {
    const limit = `sessions.maxListeners${exceeded === 'caller-count' ? 'PerCaller' : ''}`;
    return new ValiseError('limit-reached', `There are too many listeners already (${limit}).`, {
      next: 'End one that is no longer needed, or try again later.',
    });
  }

  close(): void {
    for (const open of this.#open) open.end();
  }

  async #poll(exchange: Exchange, asked: ListenRequest, audience: Audience): Promise<Result> {
    const { sessions } = exchange.spelling;
    const { scope } = audience;
    const wanted = wantedBy(audience, this.#options.subscriptions);
    const bring = async (): Promise<{ readonly result: Result; readonly isEmpty: boolean }> => {
      const log = await this.#options.log.read(scope);
      const { entries: all, missed, cursor } = since(log, asked.after);
      const entries = await wanted(all);
      const tag = scope === '' ? {} : { sessionId: scope };
      const notifications = entries.map(({ n, method, params }) =>
        tagNotification(
          sessions,
          { jsonrpc: '2.0', method, ...(params && { params }) },
          { ...tag, cursor: cursorOf(log?.gen ?? '', n) },
        ),
      );
      const result = pollResult(sessions, { notifications, cursor, missed, ...tag });
      return { result, isEmpty: entries.length === 0 && !missed };
    };
    const first = await bring();
    if (!first.isEmpty || !asked.wait) return first.result;

    let finish = (): void => {};
    const woken = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const look = (): void => void bring().then(({ isEmpty }) => isEmpty || finish(), finish);
    const off = await this.#options.channel.subscribe(scope, (signal) =>
      'end' in signal ? finish() : look(),
    );
    const timer = setTimeout(finish, asked.wait * 1000);
    const polling = this.#options.polls ? setInterval(look, POLL) : undefined;
    const open: Open = { link: exchange.link, end: finish };
    this.#open.add(open);
    whenAborted(exchange.signal, finish);
    // Check for notifications between the first read and the subscription.
    look();
    await woken;
    clearTimeout(timer);
    clearInterval(polling);
    this.#open.delete(open);
    await off();
    return bring().then(
      ({ result }) => result,
      () => first.result,
    );
  }

  /** Sends notifications to the client until it is gone or the session is over. */
  async #stream(exchange: Exchange, asked: ListenRequest, audience: Audience): Promise<void> {
    const { channel, log, polls, expiry, subscriptions } = this.#options;
    const { link, spelling, request, signal } = exchange;
    const { scope } = audience;
    const positions = knowsSessionExtension(spelling, exchange.peer.capabilities);
    const timers: NodeJS.Timeout[] = [];
    let finish = (): void => {};
    const ended = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const listener = new Listener({
      scope,
      spelling: spelling.sessions,
      positions,
      log,
      wanted: wantedBy(audience, subscriptions),
      write: (notification) =>
        link.send(unrouted(notification, link.transport), { relatedRequestId: request.id }),
      behind: () => this.#reportBehind(),
      ended: finish,
    });
    const open: Open = { link, scope, end: () => listener.end('lost') };
    // Each session of a connection has one stream. A client that asks again has lost the previous one, and not every transport
    // reports that.
    for (const other of this.#open) if (other.link === link && other.scope === scope) other.end();
    // The subscription starts before the log is read, so that nothing is lost in between. Signals wait until the stream is
    // open. If too many arrive, the listener reads the rest from the log.
    const waiting: Signal[] = [];
    let isOpen = false;
    let hasMore = false;
    const off = await channel.subscribe(scope, (signal) => {
      if (isOpen) listener.signal(signal);
      else if (waiting.length < MAX_WAITING) waiting.push(signal);
      else hasMore = true;
    });
    this.#open.add(open);
    try {
      whenAborted(signal, open.end);
      await listener.open(asked.after);
      isOpen = true;
      for (const signal of waiting) listener.signal(signal);
      if (hasMore) {
        this.#reportBehind();
        listener.look();
      }
      const check = async (): Promise<void> => {
        if (scope !== '' && !(await expiry.isUsable(scope))) listener.end('over');
        else if (positions) listener.beat();
      };
      timers.push(setInterval(() => void check().catch(() => undefined), BEAT).unref());
      if (polls) timers.push(setInterval(() => listener.look(), POLL).unref());
      await ended;
    } finally {
      for (const timer of timers) clearInterval(timer);
      this.#open.delete(open);
      void off();
    }
  }

  /** Reports that a listener does not read, and more notifications wait for it than memory may hold. */
  #reportBehind(): void {
    this.#options.events.emit('rejected', {
      family: 'sessions',
      what: 'notifications for a listener',
      reason: `it does not read, and ${MAX_WAITING} wait in memory; the rest is read from the log later`,
    });
  }
}

/** Calls `ended` when the signal is aborted, also if it has been aborted already. */
function whenAborted(signal: AbortSignal, ended: () => void): void {
  if (signal.aborted) ended();
  else signal.addEventListener('abort', ended, { once: true });
}

/**
 * Hides a notification from the v2 SDK's stdio entry until it is serialized.
 *
 * That entry routes change notifications of the newer era to its own subscriptions, and drops those that nobody subscribed to
 * in its way. Our listeners subscribe in another way.
 */
function unrouted(notification: Notification, transport: TransportLike): Notification {
  if (!('_outboundIntercept' in transport)) return notification;
  const disguised = { ...notification, listener: true };
  Object.defineProperty(disguised, 'toJSON', { enumerable: false, value: () => notification });
  return disguised;
}

function accessDenied(): ValiseError {
  return new ValiseError(
    'access-denied',
    'The server does not let this client listen to what it requested.',
    {
      next: 'Ask without the resources that are not for it.',
    },
  );
}
