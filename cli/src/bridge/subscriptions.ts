import { isObject } from 'mcp-valise/internal';
import type { Id, Message, Notification, Params } from 'mcp-valise/wire';
import { SUBSCRIPTION_ID } from './newer-shapes.ts';
import type { ServerRequests } from './server-requests.ts';

/** The older era's list notifications: the newer era's name for the subscription, and the list it belongs to. */
const LISTS: Readonly<Record<string, { readonly wish: string; readonly kind: string }>> = {
  'notifications/tools/list_changed': { wish: 'toolsListChanged', kind: 'tools' },
  'notifications/prompts/list_changed': { wish: 'promptsListChanged', kind: 'prompts' },
  'notifications/resources/list_changed': { wish: 'resourcesListChanged', kind: 'resources' },
};

const UPDATED = 'notifications/resources/updated';

/** The notifications that one listener of the host receives. */
interface Listener {
  readonly wishes: ReadonlySet<string>;
  readonly uris: ReadonlySet<string>;
}

/**
 * Listeners of a newer host at an older server, which sends every list notification to everybody, and updates of resources
 * that were subscribed to.
 */
export class Subscriptions {
  readonly #toHost: (message: Message) => void;
  readonly #own: ServerRequests;
  readonly #capabilities: Readonly<Record<string, unknown>>;
  /** Listeners by the id of their request; undefined until the acknowledgment is sent to the host. */
  readonly #listeners = new Map<Id, Listener | undefined>();

  constructor(toHost: (message: Message) => void, own: ServerRequests, capabilities: unknown) {
    this.#toHost = toHost;
    this.#own = own;
    this.#capabilities = isObject(capabilities) ? capabilities : {};
  }

  /** Whether only listeners receive this notification. */
  static concerns(method: string): boolean {
    return method === UPDATED || Object.hasOwn(LISTS, method);
  }

  /** Starts a listener. The acknowledgment leaves out what the server does not offer. */
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

  /** Ends a listener. Returns false if there is none with this id. */
  close(id: Id): boolean {
    const uris = this.#listeners.get(id)?.uris ?? [];
    if (!this.#listeners.delete(id)) return false;
    this.#unsubscribe(uris);
    return true;
  }

  /** Sends the notification to each listener that subscribed to it. */
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

  /** Returns the URIs that the server accepted. Subscribing again to one of them does no harm. */
  async #subscribe(uris: unknown): Promise<string[]> {
    const texts = Array.isArray(uris) ? uris.filter((uri) => typeof uri === 'string') : [];
    const agreed = await Promise.all(
      texts.map(async (uri) => 'result' in (await this.#own.send('resources/subscribe', { uri })).response),
    );
    return texts.filter((_, at) => agreed[at]);
  }

  /** Unsubscribes from the URIs that no other listener wants. */
  #unsubscribe(uris: Iterable<string>): void {
    const others = [...this.#listeners.values()];
    for (const uri of uris)
      if (!others.some((listener) => listener?.uris.has(uri)))
        void this.#own.send('resources/unsubscribe', { uri });
  }
}
