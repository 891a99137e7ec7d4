import { ValiseError } from '../../../core/errors.ts';
import { sha256 } from '../../../core/sha256.ts';
import { type Collection, collection, MARK, type Members, recordsOf } from '../../../store/kit/collection.ts';
import type { Store } from '../../../store/types.ts';
import { itemsIn } from '../../capped-list.ts';
import type { Exchange } from '../../exchange.ts';
import { requesterOf } from '../backend.ts';
import type { SessionsSettings } from '../options.ts';
import type { SessionIndex } from '../session-index.ts';

/** A subscriber: a session, or without one ('') its owner, if anything tells one owner from another. */
export interface Subscriber {
  readonly scope: string;
  readonly owner: string | undefined;
  /** How long the subscription lasts without being renewed, in seconds. The default is a session's lifetime. */
  readonly ttl?: number | undefined;
  /** Takes the places that an anonymous subscriber needs, under an id. Throws if there is no room. */
  readonly reserve?: ((id: string) => Promise<void>) | undefined;
}

/** Options of `Subscriptions`. */
export interface SubscriptionsOptions {
  readonly store: Store;
  readonly settings: Pick<SessionsSettings, 'maxLifetime' | 'maxAnonymousLifetime' | 'maxSubscriptions'>;
  readonly index: SessionIndex;
  /** Whether a session that was last used at a time can still be used. */
  readonly isUsable: (id: string, lastUsed: number) => Promise<boolean>;
}

/** A session that subscribed, and when it last did so. */
type Place = readonly [scope: string, at: number];

/** The maximum number of sessions that may subscribe to a resource. One entry of the store names all of them. */
const MAX_SESSIONS = 1000;
/** How long a subscription need not be written again, in milliseconds. A client that polls repeats it with each poll. */
const FRESH = 60_000;
/** How long unidentified listeners without a session get updates of resources after asking for any, in seconds. */
const UNNAMED = 3600;
const ANYBODY = 'subscribed-by-anybody';

/** The subscribers of resources: sessions, and owners that listen without one. All instances share them. */
export class Subscriptions {
  readonly #options: SubscriptionsOptions;
  readonly #records: Collection<Members>;

  constructor(options: SubscriptionsOptions) {
    this.#options = options;
    this.#records = collection(options.store, '', recordsOf('subscription record'), { unlisted: true });
  }

  /**
   * Returns the subscriber of a request.
   *
   * Anonymous subscribers without a session count like sessions: toward their caller, and in total.
   */
  subscriberOf(exchange: Exchange, scope: string): Subscriber {
    const requester = requesterOf(exchange);
    const subscriber: Subscriber = { scope, owner: requester.index };
    if (scope !== '' || requester.owner !== null) return subscriber;
    const { settings, index } = this.#options;
    const isOnConnection = exchange.transportSession?.startsWith('link:') === true;
    return {
      ...subscriber,
      // A subscription on a connection of this process ends with it. For others nothing tells when they are gone.
      ttl: isOnConnection ? settings.maxLifetime : settings.maxAnonymousLifetime,
      async reserve(id) {
        const placement = index.placementOf(requester, { id, isDefault: true });
        await index.add({ id, created: Date.now() }, placement);
      },
    };
  }

  /** Returns the sessions to notify of a resource. '' is among them if somebody without a session may want to know. */
  async scopesOf(uri: string): Promise<readonly string[]> {
    const { store } = this.#options;
    const [record, anybody] = await Promise.all([this.#records.get(keyOf(uri)), store.get(ANYBODY)]);
    const scopes = itemsIn<Place>(record?.value, 'places').map(([scope]) => scope);
    return anybody && !scopes.includes('') ? [...scopes, ''] : scopes;
  }

  /** Whether an owner without a session has subscribed to a resource. */
  async has(uri: string, owner: string): Promise<boolean> {
    return (await this.#options.store.get(ownKey(uri, owner))) !== undefined;
  }

  /**
   * Subscribes to resources. Throws if the subscriber has too many, or too many usable sessions have subscribed.
   *
   * No resources are recorded for unidentified listeners. What each of them names itself decides, and they could name any
   * number.
   */
  async add(uris: readonly string[], subscriber: Subscriber): Promise<void> {
    const { store } = this.#options;
    const { scope, owner } = subscriber;
    if (uris.length === 0) return;
    if (scope === '' && owner === undefined) return this.#tellAnybody(UNNAMED);
    await this.#addTo(uris, subscriber);
    if (scope !== '') for (const uri of uris) await this.#add(uri, scope);
    else {
      const ttl = this.#ttlOf(subscriber);
      for (const uri of uris) await store.put(ownKey(uri, owner ?? ''), MARK, { ttl, unlisted: true });
      await this.#tellAnybody(ttl);
    }
  }

  #add(uri: string, scope: string): Promise<void> {
    const now = Date.now();
    return this.#change(keyOf(uri), async (places) => {
      const known = places.find(([each]) => each === scope);
      if (known && now - known[1] < Math.min(FRESH, this.#options.settings.maxLifetime * 500))
        return undefined;
      const others = places.filter(([each]) => each !== scope);
      const usable = others.length < MAX_SESSIONS ? others : await this.#usable(others);
      if (usable.length >= MAX_SESSIONS) throw tooManySessions();
      return [...usable, [scope, now]];
    });
  }

  /**
   * Announces every resource to listeners without a session. Each of them receives only the resources that it asked for.
   *
   * The entry names no resources, so that nobody can fill the store with names.
   */
  async #tellAnybody(ttl: number): Promise<void> {
    const { store } = this.#options;
    const { expiresAt = 0 } = (await store.get(ANYBODY)) ?? {};
    if (expiresAt < Date.now() + ttl * 500) await store.put(ANYBODY, MARK, { ttl, unlisted: true });
  }

  async remove(uri: string, subscriber: Subscriber): Promise<void> {
    const { scope, owner } = subscriber;
    if (scope !== '') await this.#removeFrom(keyOf(uri), scope);
    else if (owner !== undefined) await this.#options.store.delete(ownKey(uri, owner));
    else return;
    await this.#removeFromRecord(subscriber, sha256(uri));
  }

  #removeFrom(key: string, scope: string): Promise<void> {
    return this.#change(key, async (places) =>
      places.some(([each]) => each === scope) ? places.filter(([each]) => each !== scope) : undefined,
    );
  }

  /** Removes all subscriptions of a session that has ended, or of an owner whose connection has closed. */
  async forget(subscriber: Subscriber): Promise<void> {
    const { store } = this.#options;
    const { scope, owner } = subscriber;
    const key = recordKey(subscriber);
    const uris = itemsIn<string>((await this.#records.get(key))?.value, 'uris');
    for (const uri of uris) {
      if (scope !== '') await this.#removeFrom(`subscribed/${uri}`, scope);
      else await store.delete(`subscribed/${uri}/${sha256(owner ?? '')}`);
    }
    if (uris.length > 0) await store.delete(key);
  }

  /** Records what a subscriber has subscribed to. Throws if that is too much. */
  async #addTo(uris: readonly string[], subscriber: Subscriber): Promise<void> {
    const { store, settings } = this.#options;
    const key = recordKey(subscriber);
    let isNew = false;
    const ttl = this.#ttlOf(subscriber);
    await this.#records.update(
      key,
      (found) => {
        const subscribed = itemsIn<string>(found?.value, 'uris');
        const all = new Set([...subscribed, ...uris.map((uri) => sha256(uri))]);
        if (all.size > settings.maxSubscriptions) throw tooMany();
        isNew = subscribed.length === 0;
        return all.size === subscribed.length ? undefined : { uris: [...all] };
      },
      { ttl },
    );
    if (!isNew || !subscriber.reserve) return;
    try {
      await subscriber.reserve(key);
    } catch (error) {
      await store.delete(key);
      throw error;
    }
  }

  #ttlOf({ ttl = this.#options.settings.maxLifetime }: Subscriber): number {
    return ttl;
  }

  async #removeFromRecord(subscriber: Subscriber, uri: string): Promise<void> {
    const ttl = this.#ttlOf(subscriber);
    await this.#records.update(
      recordKey(subscriber),
      (found) => {
        const subscribed = itemsIn<string>(found?.value, 'uris');
        if (!subscribed.includes(uri)) return undefined;
        return subscribed.length === 1 ? null : { uris: subscribed.filter((each) => each !== uri) };
      },
      { ttl },
    );
  }

  async #usable(places: readonly Place[]): Promise<readonly Place[]> {
    const { isUsable } = this.#options;
    const usable = await Promise.all(places.map(([scope, at]) => isUsable(scope, at)));
    return places.filter((_, index) => usable[index]);
  }

  async #change(
    key: string,
    step: (places: readonly Place[]) => Promise<readonly Place[] | undefined>,
  ): Promise<void> {
    const ttl = this.#options.settings.maxLifetime;
    await this.#records.update(
      key,
      async (found) => {
        const places = await step(itemsIn<Place>(found?.value, 'places'));
        return places?.length === 0 ? null : places && { places };
      },
      { ttl },
    );
  }
}

function recordKey({ scope, owner }: Subscriber): string {
  return scope === '' ? `subscriber/owner/${sha256(owner ?? '')}` : `subscriber/${sha256(scope)}`;
}

function keyOf(uri: string): string {
  return `subscribed/${sha256(uri)}`;
}

function ownKey(uri: string, owner: string): string {
  return `subscribed/${sha256(uri)}/${sha256(owner)}`;
}

function tooMany(): ValiseError {
  return new ValiseError(
    'limit-reached',
    'There are too many subscriptions already (sessions.maxSubscriptions).',
    { next: 'Unsubscribe from a resource that is no longer needed.' },
  );
}

function tooManySessions(): ValiseError {
  return new ValiseError(
    'limit-reached',
    `${MAX_SESSIONS} sessions have subscribed to the resource already, and no more can.`,
    {
      next: 'Unsubscribe in a session that no longer needs it, or delete that session.',
    },
  );
}
