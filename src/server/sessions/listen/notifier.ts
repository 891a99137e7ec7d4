import { messageOf, ValiseError } from '../../../core/errors.ts';
import { isObject, type Json } from '../../../core/json.ts';
import { sha256 } from '../../../core/sha256.ts';
import { memoryBus, openBus } from '../../../store/index.ts';
import type { Bus } from '../../../store/types.ts';
import { isShallow, type Notification, type Params } from '../../../wire/index.ts';
import type { ServerContext } from '../../context.ts';
import type { Exchange, ServerLink } from '../../exchange.ts';
import type { NotificationLog } from './notification-log.ts';
import type { Subscriber, Subscriptions } from './subscriptions.ts';

/** The method of the notification that a resource has changed. */
const UPDATED = 'notifications/resources/updated';

/** Options of a `Notifier`. */
export interface NotifierOptions {
  readonly log: NotificationLog;
  readonly channel: Channel;
  readonly subscriptions: Subscriptions;
  /** Whether a session can still be used. */
  readonly isUsable: (id: string) => Promise<boolean>;
  readonly warnOnce: ServerContext['warnOnce'];
}

/** The maximum number of sessions that may subscribe on one connection. */
const MAX_SCOPES = 1000;

/** Delivers notifications to their recipients, on whichever instance they listen. */
export class Notifier {
  readonly #options: NotifierOptions;
  /** Resources that were subscribed to on a link, by session; '' is without one. */
  readonly #links = new WeakMap<ServerLink, Map<string, Set<string>>>();
  /** Owners that subscribed without a session, and are gone with their link. */
  readonly #owners = new WeakMap<ServerLink, Map<string, Subscriber>>();

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  /** Notifies the listeners of a session, or those without one if the scope is ''. */
  async send(scope: string, method: string, params?: Params): Promise<void> {
    const { log, channel } = this.#options;
    check(method, params);
    const { at: _, ...signal } = await log.append(scope, method, params);
    await channel.publish(scope, signal);
  }

  /** Notifies everybody without a session. An update of a resource goes to those who subscribed to it, in whichever session. */
  async broadcast(method: string, params?: Params): Promise<void> {
    const uri = resourceOf(method, params);
    if (uri === undefined) return this.send('', method, params);
    for (const scope of await this.#options.subscriptions.scopesOf(uri))
      await this.send(scope, method, params);
  }

  /** Announces the end of a session to those who listen to it. */
  async over(scope: string): Promise<void> {
    const { channel, log, subscriptions } = this.#options;
    await channel.publish(scope, { end: true });
    await subscriptions.forget({ scope, owner: undefined });
    await log.remove(scope);
  }

  /** Records a subscription to a resource, or its end. */
  async subscribe(exchange: Exchange, scope: string): Promise<void> {
    const { link, method, request } = exchange;
    const uri = request.params?.['uri'];
    if (typeof uri !== 'string') return;
    const { subscriptions } = this.#options;
    const subscriber = subscriptions.subscriberOf(exchange, scope);
    if (method === 'resources/subscribe') {
      // This comes first because it may refuse.
      await this.#makeRoom(link, scope);
      await subscriptions.add([uri], subscriber);
      this.#addToLink(link, scope, uri);
      this.follow(exchange, subscriber);
    } else {
      this.#links.get(link)?.get(scope)?.delete(uri);
      await subscriptions.remove(uri, subscriber);
    }
  }

  /** Ensures that subscriptions that a connection made without a session are forgotten when it closes. */
  follow({ link, transportSession }: Exchange, subscriber: Subscriber): void {
    const { scope, owner } = subscriber;
    if (scope !== '' || owner === undefined || !transportSession?.startsWith('link:')) return;
    const owners = this.#owners.get(link) ?? this.#forgetAtClose(link);
    owners.set(owner, subscriber);
  }

  #forgetAtClose(link: ServerLink): Map<string, Subscriber> {
    const owners = new Map<string, Subscriber>();
    this.#owners.set(link, owners);
    link.closed.addEventListener('abort', () => {
      for (const [owner, subscriber] of owners)
        if (owner.startsWith('transport/'))
          this.#options.subscriptions.forget(subscriber).catch(() => undefined);
    });
    return owners;
  }

  /**
   * Handles an update of a resource that the server sends to a client.
   *
   * If the client subscribed within sessions, each session's listener is notified. The notification itself passes only if the
   * client also subscribed without a session.
   */
  updated(notification: Notification, link: ServerLink): Notification | undefined {
    const uri = resourceOf(notification.method, notification.params);
    if (uri === undefined) return notification;
    const scopes = [...(this.#links.get(link) ?? [])]
      .filter(([, uris]) => uris.has(uri))
      .map(([scope]) => scope);
    if (scopes.length === 0) return notification;
    for (const scope of scopes) {
      if (scope !== '')
        this.send(scope, UPDATED, notification.params).catch((error) => this.#warnOfFailure(error));
    }
    return scopes.includes('') ? notification : undefined;
  }

  /** Warns that a notification failed. The SDK does not wait for notifications, so there is no caller to throw to. */
  #warnOfFailure(error: unknown): void {
    this.#options.warnOnce('update-untold', {
      what: `A session could not be notified that a resource has changed: ${messageOf(error)}`,
      next: 'Check the store and the bus. Notifications are sent again once both respond.',
    });
  }

  /** Forgets ended sessions of a link that has many. The resources of each are limited already. */
  async #makeRoom(link: ServerLink, scope: string): Promise<void> {
    const ofLink = this.#links.get(link);
    if (!ofLink || ofLink.size < MAX_SCOPES || ofLink.has(scope)) return;
    for (const each of ofLink.keys())
      if (each !== '' && !(await this.#options.isUsable(each))) ofLink.delete(each);
    if (ofLink.size >= MAX_SCOPES) throw tooManyOnLink();
  }

  #addToLink(link: ServerLink, scope: string, uri: string): void {
    const ofLink = this.#links.get(link) ?? new Map<string, Set<string>>();
    this.#links.set(link, ofLink.set(scope, (ofLink.get(scope) ?? new Set()).add(uri)));
  }
}

function tooManyOnLink(): ValiseError {
  return new ValiseError(
    'limit-reached',
    `${MAX_SCOPES} sessions have subscribed on this connection already, and no more can.`,
    { next: 'Delete sessions that are no longer needed.' },
  );
}

function check(method: string, params: Params | undefined): void {
  if (typeof method === 'string' && method.startsWith('notifications/') && isShallow(params)) return;
  throw new ValiseError(
    'invalid-argument',
    `${JSON.stringify(method)} is not a notification that can be sent.`,
    {
      next: "Give a method that starts with 'notifications/', and params that JSON can write.",
    },
  );
}

/** Returns the resource that a notification is about, if it announces an update. */
export function resourceOf(method: string, params: Params | undefined): string | undefined {
  const uri = params?.['uri'];
  return method === UPDATED && typeof uri === 'string' ? uri : undefined;
}

/** A message between instances about a session, or about what belongs to none. */
export type Signal =
  /** A notification, with its position in the log. */
  | { readonly gen: string; readonly n: number; readonly method: string; readonly params?: Params }
  /** The session has ended. */
  | { readonly end: true };

/** Options of a `Channel`. */
export interface ChannelOptions {
  /** The server's name. All its instances share the channel. */
  readonly name: string;
  /** A bus, or its URL. Without it, signals stay in this process. */
  readonly bus: Bus | string | undefined;
}

/** Carries signals between instances, over a bus that is opened on first use. */
export class Channel {
  /** Whether other instances receive the signals. */
  readonly isShared: boolean;
  readonly #prefix: string;
  readonly #given: Bus | string | undefined;
  #opened: Promise<Bus> | undefined;

  constructor({ name, bus }: ChannelOptions) {
    this.isShared = bus !== undefined;
    this.#prefix = `valise/${sha256(name).slice(0, 16)}`;
    this.#given = bus;
  }

  async publish(scope: string, signal: Signal): Promise<void> {
    await (await this.#bus()).publish(this.#topic(scope), signal as unknown as Json);
  }

  /** Resolves once signals will arrive. The returned function unsubscribes; errors of the bus are ignored. */
  async subscribe(scope: string, listener: (signal: Signal) => void): Promise<() => Promise<void>> {
    const off = await (await this.#bus()).subscribe(this.#topic(scope), (message) => {
      if (isObject(message)) listener(message as unknown as Signal);
    });
    return async () => {
      // Signals that still arrive have no effect.
      await off().catch(() => undefined);
    };
  }

  async close(): Promise<void> {
    // A bus that was passed in is closed by its owner.
    if (typeof this.#given !== 'object') await (await this.#opened)?.close();
  }

  #bus(): Promise<Bus> {
    if (typeof this.#given === 'object') return Promise.resolve(this.#given);
    this.#opened ??= (this.#given === undefined ? Promise.resolve(memoryBus()) : openBus(this.#given)).catch(
      (error: unknown) => {
        this.#opened = undefined;
        throw error;
      },
    );
    return this.#opened;
  }

  #topic(scope: string): string {
    return `${this.#prefix}/${scope === '' ? 'global' : sha256(scope)}`;
  }
}

/** Returns the URL of a bus at the same place as the store, if that store has one. */
export function busBeside(storeUrl: string | undefined): string | undefined {
  return storeUrl !== undefined && /^(rediss?|postgres(ql)?):/i.test(storeUrl) ? storeUrl : undefined;
}
