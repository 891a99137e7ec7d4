import { messageOf, ValiseError } from '../../../errors.ts';
import { isShallow, type Notification, type Params } from '../../../wire/index.ts';
import type { ServerContext } from '../../context.ts';
import type { Exchange, ServerLink } from '../../exchange.ts';
import { resourceOf, UPDATED } from './audience.ts';
import type { Channel } from './channel.ts';
import type { NotificationLog } from './log.ts';
import type { Subscriber, Subscriptions } from './subscriptions.ts';

/** Options of a `Notifier`. */
export interface NotifierOptions {
  readonly log: NotificationLog;
  readonly channel: Channel;
  readonly subscriptions: Subscriptions;
  /** Returns the subscriber of a request. */
  readonly subscriberOf: (exchange: Exchange, scope: string) => Subscriber;
  readonly lives: (id: string) => Promise<boolean>;
  readonly warnOnce: ServerContext['warnOnce'];
}

/** The maximum number of sessions that may subscribe on one connection. */
const MAX_SCOPES = 1000;

/** Delivers notifications to their recipients, on whichever instance they listen. */
export class Notifier {
  readonly #options: NotifierOptions;
  /** Resources that were subscribed to on a link, by session; '' is without one. */
  readonly #onLink = new WeakMap<ServerLink, Map<string, Set<string>>>();
  /** Owners that subscribed without a session, and are gone with their link. */
  readonly #owners = new WeakMap<ServerLink, Map<string, Subscriber>>();

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  /** Notifies the listeners of a session, or those without one if the scope is ''. */
  async tell(scope: string, method: string, params?: Params): Promise<void> {
    const { log, channel } = this.#options;
    check(method, params);
    const { at: _, ...signal } = await log.append(scope, method, params);
    await channel.publish(scope, signal);
  }

  /** Notifies everybody without a session. An update of a resource goes to those who subscribed to it, in whichever session. */
  async broadcast(method: string, params?: Params): Promise<void> {
    const uri = resourceOf(method, params);
    if (uri === undefined) return this.tell('', method, params);
    for (const scope of await this.#options.subscriptions.scopesOf(uri))
      await this.tell(scope, method, params);
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
    const { subscriptions, subscriberOf } = this.#options;
    const subscriber = subscriberOf(exchange, scope);
    if (method === 'resources/subscribe') {
      // This comes first because it may refuse.
      await this.#makeRoom(link, scope);
      await subscriptions.add([uri], subscriber);
      this.#note(link, scope, uri);
      this.follow(exchange, subscriber);
    } else {
      this.#onLink.get(link)?.get(scope)?.delete(uri);
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
    const scopes = [...(this.#onLink.get(link) ?? [])]
      .filter(([, uris]) => uris.has(uri))
      .map(([scope]) => scope);
    if (scopes.length === 0) return notification;
    for (const scope of scopes) {
      if (scope !== '') this.tell(scope, UPDATED, notification.params).catch((error) => this.#untold(error));
    }
    return scopes.includes('') ? notification : undefined;
  }

  /** Warns that a notification failed. The SDK does not wait for notifications, so there is no caller to throw to. */
  #untold(error: unknown): void {
    this.#options.warnOnce('update-untold', {
      what: `A session could not be told that a resource has changed: ${messageOf(error)}`,
      next: 'Check the store and the bus; sessions hear of what changes once they answer.',
    });
  }

  /** Forgets ended sessions of a link that has many. The resources of each are limited already. */
  async #makeRoom(link: ServerLink, scope: string): Promise<void> {
    const ofLink = this.#onLink.get(link);
    if (!ofLink || ofLink.size < MAX_SCOPES || ofLink.has(scope)) return;
    for (const each of ofLink.keys())
      if (each !== '' && !(await this.#options.lives(each))) ofLink.delete(each);
    if (ofLink.size >= MAX_SCOPES) throw tooManyOnLink();
  }

  #note(link: ServerLink, scope: string, uri: string): void {
    const ofLink = this.#onLink.get(link) ?? new Map<string, Set<string>>();
    this.#onLink.set(link, ofLink.set(scope, (ofLink.get(scope) ?? new Set()).add(uri)));
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
    `${JSON.stringify(method)} is no notification that can be sent.`,
    {
      next: "Give a method that starts with 'notifications/', and params that JSON can write.",
    },
  );
}
