import { isObject } from 'mcp-valise/internal';
import type { Notification, Params, Request, Result } from 'mcp-valise/wire';

/** The lists that a server of the older era may have. */
const LISTS = ['tools', 'prompts', 'resources'];

/** A request that the bridge makes on its own. */
export interface Wish {
  readonly method: string;
  readonly params: Params;
}

/**
 * The state that a server of the older era keeps for its host only while their session lasts. If the server loses it, the
 * host does not know, so the bridge restores it.
 */
export class Standing {
  readonly #subscribed = new Set<string>();
  #level: unknown;
  #capabilities: Readonly<Record<string, unknown>> = {};

  /** Records a request that the server accepted. */
  agreed({ method, params = {} }: Request, result: Result): void {
    const uri = String(params['uri']);
    if (method === 'resources/subscribe') this.#subscribed.add(uri);
    else if (method === 'resources/unsubscribe') this.#subscribed.delete(uri);
    else if (method === 'logging/setLevel') this.#level = params['level'];
    else if (method === 'initialize') {
      this.#subscribed.clear();
      this.#level = undefined;
      this.#capabilities = isObject(result['capabilities']) ? result['capabilities'] : {};
    }
  }

  /** Returns the requests that restore the state in a new session. */
  wishes(): readonly Wish[] {
    return wishesOf(this.#level, this.#subscribed);
  }

  /** Returns the notifications for the host: the lists of a restarted server may have changed. */
  news(): readonly Notification[] {
    return LISTS.filter((kind) => {
      const capability = this.#capabilities[kind];
      return isObject(capability) && capability['listChanged'] === true;
    }).map((kind) => ({ jsonrpc: '2.0', method: `notifications/${kind}/list_changed` }));
  }
}

/** Returns the requests that set this state at a server of the older era. */
export function wishesOf(level: unknown, subscribed: ReadonlySet<string>): readonly Wish[] {
  return [
    ...(level === undefined ? [] : [{ method: 'logging/setLevel', params: { level } }]),
    ...[...subscribed].map((uri) => ({ method: 'resources/subscribe', params: { uri } })),
  ];
}
