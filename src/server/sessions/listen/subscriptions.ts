import { ValiseError } from '../../../errors.ts';
import { sha256 } from '../../../sha256.ts';
import { type Collection, collection, MARK, type Members, recordsOf } from '../../../store/kit/collection.ts';
import type { Store } from '../../../store/types.ts';
import type { Exchange } from '../../exchange.ts';
import type { SessionsSettings } from '../options.ts';
import type { Registry } from '../registry.ts';
import { requesterOf } from '../requester.ts';
import { roomFor } from '../room.ts';
import { listIn } from '../shelf.ts';

/** A subscriber: a session, or without one ('') its owner, if anything tells one owner from another. */
export interface Subscriber {
  readonly scope: string;
  readonly owner: string | undefined;
  /** How long the subscription lasts without being renewed, in seconds. The default is a session's lifetime. */
  readonly ttl?: number | undefined;
  /** Takes the places that an anonymous subscriber needs, under an id. Throws if there is no room. */
  readonly reserve?: ((id: string) => Promise<void>) | undefined;
}

/**
 * Creates the function that returns the subscriber of a request.
 *
 * Anonymous subscribers without a session count like sessions: toward their caller, and in total.
 */
export function subscribers(
  settings: SessionsSettings,
  registry: Registry,
): (exchange: Exchange, scope: string) => Subscriber {
  return (exchange, scope) => {
    const requester = requesterOf(exchange);
    const subscriber: Subscriber = { scope, owner: requester.shelf };
    if (scope !== '' || requester.owner !== null) return subscriber;
    const { transportSession } = exchange;
    return {
      ...subscriber,
      // A subscription on a connection of this process ends with it. For others nothing tells when they are gone.
      ttl: transportSession?.startsWith('link:') ? settings.maxLifetime : settings.maxAnonymousLifetime,
      async reserve(id) {
        const { caps } = roomFor(settings, requester, { id, implicit: true });
        await registry.reserve({ id, created: Date.now() }, caps);
      },
    };
  };
}

/** Options of `Subscriptions`. */
export interface SubscriptionsOptions {
  readonly store: Store;
  /** The maximum lifetime of a session, in seconds. */
  readonly ttl: number;
  /** The maximum number of resources of one subscriber. */
  readonly max: number;
  /** Whether a session that was last seen at a time can still be used. */
  readonly lives: (id: string, at: number) => Promise<boolean>;
}

/** A session that subscribed, and when it last did so. */
type Place = readonly [scope: string, at: number];

/** The maximum number of sessions that may subscribe to a resource. One entry of the store names all of them. */
const MAX_SESSIONS = 1000;
/** How long a subscription need not be written again, in milliseconds. A client that polls repeats it with each poll. */
const FRESH = 60_000;
/** How long unidentified listeners without a session are told of resources after asking for any, in seconds. */
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

  /** Returns the sessions to notify of a resource. '' is among them if somebody without a session may want to know. */
  async scopesOf(uri: string): Promise<readonly string[]> {
    const { store } = this.#options;
    const [kept, anybody] = await Promise.all([this.#records.get(keyOf(uri)), store.get(ANYBODY)]);
    const scopes = listIn<Place>(kept?.value, 'places').map(([scope]) => scope);
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
    await this.#note(uris, subscriber);
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
      if (known && now - known[1] < Math.min(FRESH, this.#options.ttl * 500)) return undefined;
      const others = places.filter(([each]) => each !== scope);
      const kept = others.length < MAX_SESSIONS ? others : await this.#living(others);
      if (kept.length >= MAX_SESSIONS) throw tooManySessions();
      return [...kept, [scope, now]];
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
    await this.#unnote(subscriber, sha256(uri));
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
    const note = noteKey(subscriber);
    const uris = listIn<string>((await this.#records.get(note))?.value, 'uris');
    for (const uri of uris) {
      if (scope !== '') await this.#removeFrom(`subscribed/${uri}`, scope);
      else await store.delete(`subscribed/${uri}/${sha256(owner ?? '')}`);
    }
    if (uris.length > 0) await store.delete(note);
  }

  /** Records what a subscriber has subscribed to. Throws if that is too much. */
  async #note(uris: readonly string[], subscriber: Subscriber): Promise<void> {
    const { store, max } = this.#options;
    const key = noteKey(subscriber);
    let isNew = false;
    const ttl = this.#ttlOf(subscriber);
    await this.#records.update(
      key,
      (found) => {
        const noted = listIn<string>(found?.value, 'uris');
        const all = new Set([...noted, ...uris.map((uri) => sha256(uri))]);
        if (all.size > max) throw tooMany();
        isNew = noted.length === 0;
        return all.size === noted.length ? undefined : { uris: [...all] };
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

  #ttlOf({ ttl = this.#options.ttl }: Subscriber): number {
    return ttl;
  }

  async #unnote(subscriber: Subscriber, uri: string): Promise<void> {
    const ttl = this.#ttlOf(subscriber);
    await this.#records.update(
      noteKey(subscriber),
      (found) => {
        const noted = listIn<string>(found?.value, 'uris');
        if (!noted.includes(uri)) return undefined;
        return noted.length === 1 ? null : { uris: noted.filter((each) => each !== uri) };
      },
      { ttl },
    );
  }

  async #living(places: readonly Place[]): Promise<readonly Place[]> {
    const { lives } = this.#options;
    const living = await Promise.all(places.map(([scope, at]) => lives(scope, at)));
    return places.filter((_, index) => living[index]);
  }

  async #change(
    key: string,
    step: (places: readonly Place[]) => Promise<readonly Place[] | undefined>,
  ): Promise<void> {
    const { ttl } = this.#options;
    await this.#records.update(
      key,
      async (found) => {
        const places = await step(listIn<Place>(found?.value, 'places'));
        return places?.length === 0 ? null : places && { places };
      },
      { ttl },
    );
  }
}

function noteKey({ scope, owner }: Subscriber): string {
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
