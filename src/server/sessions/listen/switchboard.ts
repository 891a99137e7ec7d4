import { messageOf, ValiseError } from '../../../errors.ts';
import type { Link } from '../../../link/instrument.ts';
import { isShallow, type Notification, type Params } from '../../../wire/index.ts';
import type { ServerContext } from '../../context.ts';
import type { Exchange } from '../../exchange.ts';
import { askerOf } from '../asker.ts';
import { resourceOf, UPDATED } from './audience.ts';
import type { Channel } from './channel.ts';
import type { NotificationLog } from './log.ts';
import type { Subscriptions } from './subscriptions.ts';

/** What the switchboard is connected to. */
export interface SwitchboardOptions {
  readonly log: NotificationLog;
  readonly channel: Channel;
  readonly subscriptions: Subscriptions;
  readonly warnOnce: ServerContext['warnOnce'];
}

/** Brings notifications to those whom they concern, on whatever instance they listen. */
export class Switchboard {
  readonly #options: SwitchboardOptions;
  /** Resources that were subscribed to on a link: within sessions, and without one (''). */
  readonly #onLink = new WeakMap<Link, Map<string, Set<string>>>();

  constructor(options: SwitchboardOptions) {
    this.#options = options;
  }

  /** Tells the listeners of a session, or with '' those without one. */
  async tell(scope: string, method: string, params?: Params): Promise<void> {
    const { log, channel } = this.#options;
    check(method, params);
    const { at: _, ...signal } = await log.append(scope, method, params);
    await channel.publish(scope, signal);
  }

  /** Tells everybody without a session; of a resource, those who subscribed to it, wherever they did. */
  async broadcast(method: string, params?: Params): Promise<void> {
    const uri = resourceOf(method, params);
    if (uri === undefined) return this.tell('', method, params);
    for (const scope of await this.#options.subscriptions.scopesOf(uri))
      await this.tell(scope, method, params);
  }

  /** A session has ended: those who listen to it hear so. */
  async over(scope: string): Promise<void> {
    const { channel, log, subscriptions } = this.#options;
    await channel.publish(scope, { end: true });
    await subscriptions.forget(scope);
    await log.remove(scope);
  }

  /** Notes a subscription to a resource, or its end. */
  async subscribe(exchange: Exchange, scope: string): Promise<void> {
    const { link, method, request } = exchange;
    const uri = request.params?.['uri'];
    if (typeof uri !== 'string') return;
    const { subscriptions } = this.#options;
    const subscriber = { scope, owner: askerOf(exchange).shelf };
    if (method === 'resources/subscribe') {
      // First where it may be refused.
      await subscriptions.add(uri, subscriber);
      this.#scopesOn(link, uri).add(scope);
    } else {
      this.#scopesOn(link, uri).delete(scope);
      await subscriptions.remove(uri, subscriber);
    }
  }

  /**
   * The server tells a client of a resource. Where the client subscribed within sessions, each session's listener is
   * told; only where it also subscribed without one does the notification go on as it is.
   */
  updated(notification: Notification, link: Link): Notification | undefined {
    const uri = resourceOf(notification.method, notification.params);
    if (uri === undefined) return notification;
    const scopes = this.#onLink.get(link)?.get(uri);
    if (!scopes || scopes.size === 0) return notification;
    for (const scope of scopes) {
      if (scope !== '') this.tell(scope, UPDATED, notification.params).catch((error) => this.#untold(error));
    }
    return scopes.has('') ? notification : undefined;
  }

  /** The SDK's way of telling waits for nobody, so there is nobody to throw at. */
  #untold(error: unknown): void {
    this.#options.warnOnce('update-untold', {
      what: `A session could not be told that a resource has changed: ${messageOf(error)}`,
      next: 'Check the store and the bus; sessions hear of what changes once they answer.',
    });
  }

  #scopesOn(link: Link, uri: string): Set<string> {
    let ofLink = this.#onLink.get(link);
    if (!ofLink) this.#onLink.set(link, (ofLink = new Map()));
    let scopes = ofLink.get(uri);
    if (!scopes) ofLink.set(uri, (scopes = new Set()));
    return scopes;
  }
}

function check(method: string, params: Params | undefined): void {
  if (typeof method === 'string' && method.startsWith('notifications/') && isShallow(params)) return;
  throw new ValiseError(
    'bad-notification',
    `${JSON.stringify(method)} is no notification that can be sent.`,
    {
      next: "Give a method that starts with 'notifications/', and params that JSON can write.",
    },
  );
}
