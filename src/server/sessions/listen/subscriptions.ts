import { isObject, type Json } from '../../../json.ts';
import type { Store } from '../../../store/types.ts';
import { changeEntry } from '../change.ts';
import { digest } from '../registry.ts';

const MAX_SCOPES = 1000;

/** Who wants to hear of a resource: sessions, and '' for listeners without one. Any instance can tell. */
export class Subscriptions {
  readonly #store: Store;
  readonly #ttl: number;

  /** `ttl` is the longest life of a session, in seconds. */
  constructor(store: Store, ttl: number) {
    this.#store = store;
    this.#ttl = ttl;
  }

  async scopesOf(uri: string): Promise<readonly string[]> {
    return readScopes((await this.#store.get(keyOf(uri)))?.value);
  }

  async add(uri: string, scope: string): Promise<void> {
    // The oldest goes where there are too many: a client must not fill the store.
    await this.#change(uri, (scopes) =>
      scopes.includes(scope) ? undefined : [...scopes, scope].slice(-MAX_SCOPES),
    );
  }

  async remove(uri: string, scope: string): Promise<void> {
    await this.#change(uri, (scopes) =>
      scopes.includes(scope) ? scopes.filter((each) => each !== scope) : undefined,
    );
  }

  #change(uri: string, step: (scopes: readonly string[]) => readonly string[] | undefined): Promise<void> {
    return changeEntry(this.#store, keyOf(uri), this.#ttl, (value): Json | undefined => {
      const scopes = step(readScopes(value));
      return scopes && { scopes };
    });
  }
}

function readScopes(value: unknown): readonly string[] {
  return isObject(value) && Array.isArray(value['scopes']) ? (value['scopes'] as readonly string[]) : [];
}

function keyOf(uri: string): string {
  return `subscribed/${digest(uri)}`;
}
