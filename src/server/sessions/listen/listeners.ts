import { ValiseError } from '../../../errors.ts';
import {
  emptyResult,
  isProblem,
  type ListenRequest,
  pollResult,
  type Result,
  readListenParams,
  sessionNotFound,
  tagNotification,
} from '../../../wire/index.ts';
import type { Exchange, Reply, ServerLink } from '../../exchange.ts';
import { type Exceeded, Quota } from '../../quota.ts';
import { isRefusal, type Keeping, type Requester } from '../held.ts';
import { type Failed, invalid, knowsUs } from '../reply.ts';
import type { Admit } from './admission.ts';
import { type Audience, wantedBy } from './audience.ts';
import type { Channel, Signal } from './channel.ts';
import { Listener, MAX_WAITING } from './listener.ts';
import { cursorOf, type NotificationLog, since } from './log.ts';
import type { Notifier, NotifierOptions } from './notifier.ts';
import type { Subscriptions } from './subscriptions.ts';
import { unrouted } from './unrouted.ts';

/** Options of `Listeners`. */
export interface ListenersOptions {
  readonly keeping: Keeping;
  readonly log: NotificationLog;
  readonly channel: Channel;
  readonly subscriptions: Subscriptions;
  readonly admit: Admit;
  /** Returns the subscriber of a request. */
  readonly subscriberOf: NotifierOptions['subscriberOf'];
  readonly follow: Notifier['follow'];
  readonly max: number;
  readonly maxPerCaller: number;
  /** Whether instances share a store but no bus. The log is then polled. */
  readonly looks: boolean;
  readonly refuse: (id: string, reason: string) => void;
  /** Called when a listener does not read and more notifications wait for it than memory may hold. */
  readonly behind: () => void;
  readonly failed: Failed;
  /** Whether the session can be used. */
  readonly lives: (id: string) => Promise<boolean>;
}

/** An open listener, and how to end it. */
interface Open {
  readonly link: ServerLink;
  /** The scope of a stream, or undefined for a poll. */
  readonly scope?: string;
  end(): void;
}

const BEAT = 15_000;
const LOOK = 1000;

/** The listeners of this instance. */
export class Listeners {
  readonly #options: ListenersOptions;
  readonly #open = new Set<Open>();
  readonly #places: Quota;

  constructor(options: ListenersOptions) {
    this.#options = options;
    this.#places = new Quota({ perCaller: { count: options.maxPerCaller }, total: { count: options.max } });
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

  async #receive(exchange: Exchange, requester: Requester, asked: ListenRequest): Promise<Reply> {
    const held = asked.session && (await this.#options.keeping.open(asked.session, requester));
    if (held && isRefusal(held)) {
      const { sessionId } = asked.session as { sessionId: string };
      this.#options.refuse(sessionId, held.refused);
      return { error: sessionNotFound(exchange.spelling.sessions, sessionId) };
    }
    const { subscriptions, subscriberOf, follow } = this.#options;
    const { resources = [] } = asked;
    const refused = await this.#options.admit(exchange, held?.id, resources);
    if (refused) return refused;
    const audience = { scope: held?.id ?? '', owner: requester.shelf, resources };
    if (resources.length > 0) {
      const subscriber = subscriberOf(exchange, audience.scope);
      await subscriptions.add(resources, subscriber);
      follow(exchange, subscriber);
    }
    if (asked.poll) return { result: await this.#poll(exchange, asked, audience) };
    await this.#stream(exchange, asked, audience);
    return { result: emptyResult(exchange.era) };
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
    const looking = this.#options.looks ? setInterval(look, LOOK) : undefined;
    const open: Open = { link: exchange.link, end: finish };
    this.#open.add(open);
    whenAborted(exchange.signal, finish);
    // Check for notifications between the first read and the subscription.
    look();
    await woken;
    clearTimeout(timer);
    clearInterval(looking);
    this.#open.delete(open);
    await off();
    return bring().then(
      ({ result }) => result,
      () => first.result,
    );
  }

  /** Sends notifications to the client until it is gone or the session is over. */
  async #stream(exchange: Exchange, asked: ListenRequest, audience: Audience): Promise<void> {
    const { channel, log, looks, lives, subscriptions, behind } = this.#options;
    const { link, spelling, request, signal } = exchange;
    const { scope } = audience;
    const positions = knowsUs(exchange);
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
      behind,
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
        behind();
        listener.look();
      }
      const check = async (): Promise<void> => {
        if (scope !== '' && !(await lives(scope))) listener.end('over');
        else if (positions) listener.beat();
      };
      timers.push(setInterval(() => void check().catch(() => undefined), BEAT).unref());
      if (looks) timers.push(setInterval(() => listener.look(), LOOK).unref());
      await ended;
    } finally {
      for (const timer of timers) clearInterval(timer);
      this.#open.delete(open);
      void off();
    }
  }
}

/** Calls `ended` when the signal is aborted, also if it has been aborted already. */
function whenAborted(signal: AbortSignal, ended: () => void): void {
  if (signal.aborted) ended();
  else signal.addEventListener('abort', ended, { once: true });
}
