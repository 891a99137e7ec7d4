import { ValiseError } from '../../../errors.ts';
import type { Json } from '../../../json.ts';
import type { Store } from '../../../store/types.ts';
import { changeEntry, listIn } from '../change.ts';
import { digest } from '../registry.ts';

/** Who subscribes: a session, or without one ('') its owner, where anything tells one owner from another. */
export interface Subscriber {
  readonly scope: string;
  readonly owner: string | undefined;
}

/** What subscriptions need. */
export interface SubscriptionsOptions {
  readonly store: Store;
  /** The longest life of a session, in seconds. */
  readonly ttl: number;
  /** True while a session can be used that was last heard of at a time. */
  readonly lives: (id: string, at: number) => Promise<boolean>;
}

/** A session that subscribed, and when it last said so. */
type Place = readonly [scope: string, at: number];

/** One entry of the store names them all, so there is a most; a client must not fill the store. */
const MAX_SESSIONS = 1000;
/** A client that polls says with each poll what it wants; that need not be written each time. In milliseconds. */
const FRESH = 60_000;
/** How many of a session's resources are noted for its end; what it subscribed to before them goes when room is needed. */
const MAX_NOTED = 100;

/** Who wants to hear of a resource: sessions, and owners that listen without one. Any instance can tell. */
export class Subscriptions {
  readonly #options: SubscriptionsOptions;

  constructor(options: SubscriptionsOptions) {
    this.#options = options;
  }

  /** The sessions to tell of a resource; '' is among them where owners may want to hear of it without one. */
  async scopesOf(uri: string): Promise<readonly string[]> {
    const kept = (await this.#options.store.get(keyOf(uri)))?.value;
    return listIn<Place>(kept, 'places').map(([scope]) => scope);
  }

  /** True where an owner wants to hear of a resource without a session. */
  async has(uri: string, owner: string): Promise<boolean> {
    return (await this.#options.store.get(ownKey(uri, owner))) !== undefined;
  }

  /** Throws where too many sessions that can still be used have subscribed. */
  async add(uri: string, { scope, owner }: Subscriber): Promise<void> {
    const { store, ttl } = this.#options;
    if (scope === '' && owner !== undefined) await store.put(ownKey(uri, owner), 1, { ttl });
    const now = Date.now();
    const key = keyOf(uri);
    await this.#change(key, async (places) => {
      const known = places.find(([each]) => each === scope);
      if (known && now - known[1] < Math.min(FRESH, ttl * 500)) return undefined;
      const others = places.filter(([each]) => each !== scope);
      const isRoom = scope === '' || others.length < MAX_SESSIONS;
      const kept = isRoom ? others : await this.#living(others);
      if (scope !== '' && kept.length >= MAX_SESSIONS) throw tooMany();
      return [...kept, [scope, now]];
    });
    if (scope !== '') await this.#note(scope, key);
  }

  async remove(uri: string, { scope, owner }: Subscriber): Promise<void> {
    if (scope !== '') await this.#removeFrom(keyOf(uri), scope);
    else if (owner !== undefined) {
      // Other owners may still want to hear: '' stays.
      await this.#options.store.delete(ownKey(uri, owner));
    }
  }

  #removeFrom(key: string, scope: string): Promise<void> {
    return this.#change(key, async (places) =>
      places.some(([each]) => each === scope) ? places.filter(([each]) => each !== scope) : undefined,
    );
  }

  /** A session has ended: it wants to hear of nothing any more. */
  async forget(scope: string): Promise<void> {
    const { store } = this.#options;
    const keys = listIn<string>((await store.get(noteKey(scope)))?.value, 'keys');
    for (const key of keys) await this.#removeFrom(key, scope);
    if (keys.length > 0) await store.delete(noteKey(scope));
  }

  /** Notes where a session has subscribed, for its end. */
  #note(scope: string, key: string): Promise<void> {
    const { store, ttl } = this.#options;
    return changeEntry(store, noteKey(scope), ttl, (value) => {
      const keys = listIn<string>(value, 'keys');
      return keys.includes(key) ? undefined : { keys: [...keys, key].slice(-MAX_NOTED) };
    });
  }

  async #living(places: readonly Place[]): Promise<readonly Place[]> {
    const { lives } = this.#options;
    const living = await Promise.all(places.map(([scope, at]) => scope === '' || lives(scope, at)));
    return places.filter((_, index) => living[index]);
  }

  #change(
    key: string,
    step: (places: readonly Place[]) => Promise<readonly Place[] | undefined>,
  ): Promise<void> {
    const { store, ttl } = this.#options;
    return changeEntry(store, key, ttl, async (value) => {
      const places = await step(listIn<Place>(value, 'places'));
      return places && ({ places } as unknown as Json);
    });
  }
}

function noteKey(scope: string): string {
  return `subscriber/${digest(scope)}`;
}

function keyOf(uri: string): string {
  return `subscribed/${digest(uri)}`;
}

function ownKey(uri: string, owner: string): string {
  return `subscribed/${digest(uri)}/${digest(owner)}`;
}

function tooMany(): ValiseError {
  return new ValiseError(
    'too-many-subscriptions',
    `${MAX_SESSIONS} sessions have subscribed to the resource already, and no more can.`,
    {
      next: 'Unsubscribe in a session that no longer needs it, or delete that session.',
    },
  );
}
