import { type Id, isObject, type Notification, type Request } from 'mcp-valise/internal';
import { changingLists, LISTS, offers } from './settings.ts';
import { ACKNOWLEDGED, SUBSCRIPTION_ID } from './shapes.ts';
import type { Sides } from './translation.ts';

/** What one listener receives: methods of list notifications, and the URIs of resources. */
interface Listener {
  readonly methods: ReadonlySet<string>;
  readonly uris: ReadonlySet<string>;
}

/**
 * Listeners of a newer host at an older server, which sends every list notification to everybody, and updates of resources
 * that were subscribed to.
 */
export class Listeners {
  readonly #bridge: Sides;
  readonly #capabilities: unknown;
  /** By the id of their request. Undefined until the acknowledgment is sent to the host. */
  readonly #listeners = new Map<Id, Listener | undefined>();

  constructor(bridge: Sides, capabilities: unknown) {
    this.#bridge = bridge;
    this.#capabilities = capabilities;
  }

  /** Starts a listener. The acknowledgment leaves out what the server does not offer. */
  async open({ id, params }: Request): Promise<void> {
    this.#listeners.set(id, undefined);
    const wanted = isObject(params?.['notifications']) ? params['notifications'] : {};
    const lists = changingLists(this.#capabilities).filter((kind) => wanted[LISTS[kind]] === true);
    const uris = await this.#subscribe(wanted['resourceSubscriptions']);
    if (!this.#listeners.has(id)) return this.#unsubscribe(uris);
    const notifications = {
      ...Object.fromEntries(lists.map((kind) => [LISTS[kind], true])),
      ...(uris.length > 0 && { resourceSubscriptions: uris }),
    };
    this.#bridge.toHost({
      jsonrpc: '2.0',
      method: ACKNOWLEDGED,
      params: { _meta: { [SUBSCRIPTION_ID]: id }, notifications },
    });
    const methods = new Set(lists.map((kind) => `notifications/${kind}/list_changed`));
    this.#listeners.set(id, { methods, uris: new Set(uris) });
  }

  /** Ends a listener. Returns false if there is none with this id. */
  close(id: Id): boolean {
    const uris = this.#listeners.get(id)?.uris ?? [];
    if (!this.#listeners.delete(id)) return false;
    this.#unsubscribe(uris);
    return true;
  }

  /** Sends a notification to the listeners that want it. Returns false if it is not one that listeners receive. */
  notify(message: Notification): boolean {
    const { method, params } = message;
    const isUpdate = method === 'notifications/resources/updated';
    if (!isUpdate && !/^notifications\/(tools|prompts|resources)\/list_changed$/.test(method)) return false;
    for (const [id, listener] of this.#listeners) {
      if (!(isUpdate ? listener?.uris.has(String(params?.['uri'])) : listener?.methods.has(method))) continue;
      const _meta = { ...params?._meta, [SUBSCRIPTION_ID]: id };
      this.#bridge.toHost({ ...message, params: { ...params, _meta } });
    }
    return true;
  }

  /** Returns the URIs that the server accepted. Subscribing again to one of them does no harm. */
  async #subscribe(uris: unknown): Promise<string[]> {
    if (!Array.isArray(uris) || !offers(this.#capabilities, 'resources', 'subscribe')) return [];
    const texts = uris.filter((uri) => typeof uri === 'string');
    const outcomes = await Promise.all(texts.map((uri) => this.#bridge.ask('resources/subscribe', { uri })));
    return texts.filter((_, at) => 'result' in (outcomes[at]?.response ?? {}));
  }

  /** Unsubscribes from the URIs that no other listener wants. */
  #unsubscribe(uris: Iterable<string>): void {
    const others = [...this.#listeners.values()];
    for (const uri of uris)
      if (!others.some((listener) => listener?.uris.has(uri)))
        void this.#bridge.ask('resources/unsubscribe', { uri });
  }
}
