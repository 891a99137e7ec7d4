import { ValiseError } from '../../../errors.ts';
import type { Link } from '../../../link/instrument.ts';
import {
  emptyResult,
  type Id,
  isProblem,
  type ListenRequest,
  pollResult,
  type Result,
  readListenParams,
  sessionNotFound,
  tagNotification,
} from '../../../wire/index.ts';
import { complete } from '../../../wire/session-methods.ts';
import type { Exchange } from '../../exchange.ts';
import type { Later, Reply } from '../../part.ts';
import { type Exceeded, Quota } from '../../quota.ts';
import { type Asker, isRefusal, type Keeping } from '../held.ts';
import { type Failed, invalid, knowsUs } from '../reply.ts';
import type { Admit } from './admission.ts';
import { type Audience, wantedBy } from './audience.ts';
import type { Channel, Signal } from './channel.ts';
import { Listener } from './listener.ts';
import { cursorOf, type NotificationLog, since } from './log.ts';
import type { Subscriptions } from './subscriptions.ts';
import type { Switchboard, SwitchboardOptions } from './switchboard.ts';
import { unrouted } from './unrouted.ts';

/** What listeners need. */
export interface ListenersOptions {
  readonly keeping: Keeping;
  readonly log: NotificationLog;
  readonly channel: Channel;
  readonly subscriptions: Subscriptions;
  readonly admit: Admit;
  /** Who subscribes, by whose request it is. */
  readonly subscriberOf: SwitchboardOptions['subscriberOf'];
  readonly follow: Switchboard['follow'];
  readonly max: number;
  readonly maxPerCaller: number;
  /** True where instances share a store but no bus: then the log is looked at from time to time. */
  readonly looks: boolean;
  readonly refuse: (id: string, reason: string) => void;
  readonly failed: Failed;
  /** True while the session can be used. */
  readonly lives: (id: string) => Promise<boolean>;
}

/** A listener, and how it ends. */
interface Open {
  readonly link: Link;
  readonly id: Id;
  /** What a stream listens to; undefined for a poll. */
  readonly scope?: string;
  end(): void;
}

/** Signals that wait until a stream is open; the listener looks into the log for what comes after them. */
const MAX_WAITING = 100;
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

  /** Answers a listen request: with what a poll brings, with a stream, or with an error. */
  async receive(exchange: Exchange, asker: Asker): Promise<Reply | Later> {
    const asked = readListenParams(exchange.request.params);
    if (isProblem(asked)) return invalid(asked);
    // Taken before anything is waited for: so many requests at once find no more places than there are.
    const leave = this.#places.take(asker.caller);
    if (typeof leave !== 'function') return { error: this.#options.failed(this.#tooMany(leave)) };
    try {
      const answer = await this.#receive(exchange, asker, asked, leave);
      if (!('later' in answer)) leave();
      return answer;
    } catch (error) {
      leave();
      return { error: this.#options.failed(error) };
    }
  }

  async #receive(
    exchange: Exchange,
    asker: Asker,
    asked: ListenRequest,
    leave: () => void,
  ): Promise<Reply | Later> {
    const held = asked.session && (await this.#options.keeping.open(asked.session, asker));
    if (held && isRefusal(held)) {
      const { sessionId } = asked.session as { sessionId: string };
      this.#options.refuse(sessionId, held.refused);
      return { error: sessionNotFound(exchange.spelling.sessions, sessionId) };
    }
    const { subscriptions, subscriberOf, follow } = this.#options;
    const { resources = [] } = asked;
    const refused = await this.#options.admit(exchange, held?.id, resources);
    if (refused) return refused;
    const audience = { scope: held?.id ?? '', owner: asker.shelf, resources };
    if (resources.length > 0) {
      const subscriber = subscriberOf(exchange, audience.scope);
      await subscriptions.add(resources, subscriber);
      follow(exchange, subscriber);
    }
    if (asked.poll) return this.#poll(exchange, asked, audience, leave);
    await this.#stream(exchange, asked, audience, leave);
    return { later: true };
  }

  #tooMany(exceeded: Exceeded): ValiseError {
    const limit = `sessions.maxListeners${exceeded === 'caller-count' ? 'PerCaller' : ''}`;
    return new ValiseError('too-many-listeners', `There are too many listeners already (${limit}).`, {
      next: 'End one that is no longer needed, or try again later.',
    });
  }

  /** The client no longer wants to hear. */
  cancelled(link: Link, id: unknown): void {
    for (const open of this.#open) if (open.link === link && open.id === id) open.end();
  }

  closed(link: Link): void {
    for (const open of this.#open) if (open.link === link) open.end();
  }

  close(): void {
    for (const open of this.#open) open.end();
  }

  async #poll(
    exchange: Exchange,
    asked: ListenRequest,
    audience: Audience,
    leave: () => void,
  ): Promise<Reply | Later> {
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
    if (!first.isEmpty || !asked.wait) return { result: first.result };

    const { link } = exchange;
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
    const open: Open = { link, id: exchange.request.id, end: finish };
    this.#open.add(open);
    // What came between the first look and the subscription.
    look();
    void woken.then(async () => {
      clearTimeout(timer);
      clearInterval(looking);
      this.#open.delete(open);
      leave();
      await off();
      this.#answer(
        exchange,
        await bring().then(
          ({ result }) => result,
          () => first.result,
        ),
      );
    });
    return { later: true };
  }

  async #stream(
    exchange: Exchange,
    asked: ListenRequest,
    audience: Audience,
    leave: () => void,
  ): Promise<void> {
    const { channel, log, looks, lives, subscriptions } = this.#options;
    const { link, era, spelling, request } = exchange;
    const { scope } = audience;
    const positions = knowsUs(exchange);
    const timers: NodeJS.Timeout[] = [];
    let off: (() => Promise<void>) | undefined;
    let isOpen = false;
    let isOver = false;
    const listener = new Listener({
      scope,
      spelling: spelling.sessions,
      positions,
      log,
      wanted: wantedBy(audience, subscriptions),
      write: (notification) =>
        link.send(unrouted(notification, link.transport), { relatedRequestId: request.id }),
      ended: () => {
        for (const timer of timers) clearInterval(timer);
        this.#open.delete(open);
        leave();
        void off?.();
        isOver = true;
        // Where it cannot be opened, the error is the answer.
        if (isOpen) this.#answer(exchange, emptyResult(era));
      },
    });
    const open: Open = { link, id: request.id, scope, end: () => listener.end('lost') };
    // One stream for each session of a connection: a client that asks again has lost the one before, and not every
    // transport tells.
    for (const other of this.#open) if (other.link === link && other.scope === scope) other.end();
    // Subscribed before the log is read, so that nothing falls in between.
    const waiting: Signal[] = [];
    off = await channel.subscribe(scope, (signal) => {
      if (isOpen) listener.signal(signal);
      else if (waiting.length < MAX_WAITING) waiting.push(signal);
    });
    this.#open.add(open);
    await listener.open(asked.after);
    isOpen = true;
    if (isOver) return this.#answer(exchange, emptyResult(era));
    for (const signal of waiting) listener.signal(signal);
    if (waiting.length === MAX_WAITING) listener.look();
    const check = async (): Promise<void> => {
      if (scope !== '' && !(await lives(scope))) listener.end('over');
      else if (positions) listener.beat();
    };
    timers.push(setInterval(() => void check().catch(() => undefined), BEAT).unref());
    if (looks) timers.push(setInterval(() => listener.look(), LOOK).unref());
  }

  /** A client that is gone gets no answer, and that is no reason to fail. */
  #answer({ link, era, request }: Exchange, result: Result): void {
    link.transport
      .send({ jsonrpc: '2.0', id: request.id, result: complete(era, result) })
      .catch(() => undefined);
  }
}
