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

/** Who subscribes: a session, or without one ('') its owner, where anything tells one owner from another. */
export interface Subscriber {
  readonly scope: string;
  readonly owner: string | undefined;
  /** How long it is remembered without being said again, in seconds; as long as a session lives by default. */
  readonly ttl?: number | undefined;
  /** Takes the places that a subscriber needs who belongs to nobody, under an id; throws where there is no room. */
  readonly reserve?: ((id: string) => Promise<void>) | undefined;
}

/** Tells who subscribes. Of nobody, those without a session count like sessions: toward their caller, and in total. */
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
      // One of a connection in this process goes with it; of others nobody hears when they are gone.
      ttl: transportSession?.startsWith('link:') ? settings.maxLifetime : settings.maxAnonymousLifetime,
      async reserve(id) {
        const { caps } = roomFor(settings, requester, { id, implicit: true });
        await registry.reserve({ id, created: Date.now() }, caps);
      },
    };
  };
}

/** What subscriptions need. */
export interface SubscriptionsOptions {
  readonly store: Store;
  /** The longest life of a session, in seconds. */
  readonly ttl: number;
  /** How many resources one subscriber may have. */
  readonly max: number;
  /** True while a session can be used that was last heard of at a time. */
  readonly lives: (id: string, at: number) => Promise<boolean>;
}

/** A session that subscribed, and when it last said so. */
type Place = readonly [scope: string, at: number];

/** One entry of the store names all sessions that subscribed to a resource, so there is a most. */
const MAX_SESSIONS = 1000;
/** A client that polls says with each poll what it wants; that need not be written each time. In milliseconds. */
const FRESH = 60_000;
/** How long somebody without a session, whom nothing names, is told of resources after asking for any, in seconds. */
const UNNAMED = 3600;
const ANYBODY = 'subscribed-by-anybody';

/** Who wants to hear of a resource: sessions, and owners that listen without one. Any instance can tell. */
export class Subscriptions {
  readonly #options: SubscriptionsOptions;
  readonly #records: Collection<Members>;

  constructor(options: SubscriptionsOptions) {
    this.#options = options;
    this.#records = collection(options.store, '', recordsOf('subscription record'));
  }

  /** The sessions to tell of a resource; '' is among them where somebody may want to hear of it without one. */
  async scopesOf(uri: string): Promise<readonly string[]> {
    const { store } = this.#options;
    const [kept, anybody] = await Promise.all([this.#records.get(keyOf(uri)), store.get(ANYBODY)]);
    const scopes = listIn<Place>(kept?.value, 'places').map(([scope]) => scope);
    return anybody && !scopes.includes('') ? [...scopes, ''] : scopes;
  }

  /** True where an owner wants to hear of a resource without a session. */
  async has(uri: string, owner: string): Promise<boolean> {
    return (await this.#options.store.get(ownKey(uri, owner))) !== undefined;
  }

  /**
   * Throws where the subscriber has too many already, or too many sessions that can still be used have subscribed. Of those whom
   * nothing names no resource is noted: what each of them names itself decides, and they could name any number.
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
      for (const uri of uris) await store.put(ownKey(uri, owner ?? ''), MARK, { ttl });
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

  /** Has those without a session told of every resource; each of them hears of its own. Nobody can fill the store with names. */
  async #tellAnybody(ttl: number): Promise<void> {
    const { store } = this.#options;
    const { expiresAt = 0 } = (await store.get(ANYBODY)) ?? {};
    if (expiresAt < Date.now() + ttl * 500) await store.put(ANYBODY, MARK, { ttl });
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

  /** A session has ended, or the connection of an owner without one: it wants to hear of nothing any more. */
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

  /** Notes what somebody has subscribed to, and throws where that is too much. */
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
    'too-many-subscriptions',
    'There are too many subscriptions already (sessions.maxSubscriptions).',
    { next: 'Unsubscribe from a resource that is no longer needed.' },
  );
}

function tooManySessions(): ValiseError {
  return new ValiseError(
    'too-many-subscriptions',
    `${MAX_SESSIONS} sessions have subscribed to the resource already, and no more can.`,
    {
      next: 'Unsubscribe in a session that no longer needs it, or delete that session.',
    },
  );
}
