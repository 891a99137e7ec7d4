import { isObject } from 'mcp-valise/internal';
import type { Id, Message, Notification, Params } from 'mcp-valise/wire';
import { SUBSCRIPTION_ID } from './newer-shapes.ts';
import type { ServerRequests } from './server-requests.ts';

/** Notifications of the older era about lists: what the newer one calls the wish for them, and whose list it is. */
const LISTS: Readonly<Record<string, { readonly wish: string; readonly kind: string }>> = {
  'notifications/tools/list_changed': { wish: 'toolsListChanged', kind: 'tools' },
  'notifications/prompts/list_changed': { wish: 'promptsListChanged', kind: 'prompts' },
  'notifications/resources/list_changed': { wish: 'resourcesListChanged', kind: 'resources' },
};

const UPDATED = 'notifications/resources/updated';

/** What one listener of the host hears of. */
interface Listener {
  readonly wishes: ReadonlySet<string>;
  readonly uris: ReadonlySet<string>;
}

/** Listeners of a newer host at a server that tells everybody everything, and of resources what was subscribed to. */
export class Subscriptions {
  readonly #toHost: (message: Message) => void;
  readonly #own: ServerRequests;
  readonly #capabilities: Readonly<Record<string, unknown>>;
  /** Listeners by the id of their request; without a value until the host has been told what it will hear. */
  readonly #listeners = new Map<Id, Listener | undefined>();

  constructor(toHost: (message: Message) => void, own: ServerRequests, capabilities: unknown) {
    this.#toHost = toHost;
    this.#own = own;
    this.#capabilities = isObject(capabilities) ? capabilities : {};
  }

  /** True for what only listeners hear. */
  static concerns(method: string): boolean {
    return method === UPDATED || Object.hasOwn(LISTS, method);
  }

  /** Begins to listen. What the server does not offer is left out of what the host is told first. */
  async listen(id: Id, params: Params | undefined): Promise<void> {
    this.#listeners.set(id, undefined);
    const wanted = isObject(params?.['notifications']) ? params['notifications'] : {};
    const wishes = Object.values(LISTS)
      .filter(({ wish, kind }) => wanted[wish] === true && this.#offers(kind, 'listChanged'))
      .map(({ wish }) => wish);
    const uris = this.#offers('resources', 'subscribe')
      ? await this.#subscribe(wanted['resourceSubscriptions'])
      : [];
    if (!this.#listeners.has(id)) {
      this.#unsubscribe(uris);
      return;
    }
    this.#toHost({
      jsonrpc: '2.0',
      method: 'notifications/subscriptions/acknowledged',
      params: {
        _meta: { [SUBSCRIPTION_ID]: id },
        notifications: {
          ...Object.fromEntries(wishes.map((wish) => [wish, true])),
          ...(uris.length > 0 && { resourceSubscriptions: uris }),
        },
      },
    });
    this.#listeners.set(id, { wishes: new Set(wishes), uris: new Set(uris) });
  }

  /** Ends a listener; false where there is none of this id. */
  close(id: Id): boolean {
    const uris = this.#listeners.get(id)?.uris ?? [];
    if (!this.#listeners.delete(id)) return false;
    this.#unsubscribe(uris);
    return true;
  }

  /** Tells each listener that wants to hear of it. */
  tell(message: Notification): void {
    const uri = message.params?.['uri'];
    const wish = LISTS[message.method]?.wish;
    for (const [id, listener] of this.#listeners) {
      const wants = wish === undefined ? listener?.uris.has(String(uri)) : listener?.wishes.has(wish);
      if (!wants) continue;
      const _meta = { ...message.params?._meta, [SUBSCRIPTION_ID]: id };
      this.#toHost({ ...message, params: { ...message.params, _meta } });
    }
  }

  #offers(kind: string, what: string): boolean {
    const capability = this.#capabilities[kind];
    return isObject(capability) && capability[what] === true;
  }

  /** Those that the server agreed to. One that it knows already it takes once more without harm. */
  async #subscribe(uris: unknown): Promise<string[]> {
    const texts = Array.isArray(uris) ? uris.filter((uri) => typeof uri === 'string') : [];
    const agreed = await Promise.all(
      texts.map(async (uri) => 'result' in (await this.#own.send('resources/subscribe', { uri })).response),
    );
    return texts.filter((_, at) => agreed[at]);
  }

  /** Lets go of what no other listener wants. */
  #unsubscribe(uris: Iterable<string>): void {
    const others = [...this.#listeners.values()];
    for (const uri of uris)
      if (!others.some((listener) => listener?.uris.has(uri)))
        void this.#own.send('resources/unsubscribe', { uri });
  }
}
