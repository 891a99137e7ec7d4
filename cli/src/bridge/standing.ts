import { isObject } from 'mcp-valise/internal';
import type { Notification, Params, Request, Result } from 'mcp-valise/wire';

/** What lists a server of the older era may have. */
const LISTS = ['tools', 'prompts', 'resources'];

/** A request that the bridge makes by itself. */
export interface Wish {
  readonly method: string;
  readonly params: Params;
}

/**
 * What a server of the older era keeps for its host only as long as their session lasts. Where the server has lost it, the
 * host does not know: it is asked for once more in its place.
 */
export class Standing {
  readonly #subscribed = new Set<string>();
  #level: unknown;
  #capabilities: Readonly<Record<string, unknown>> = {};

  /** Takes note of what the server has agreed to. */
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

  /** What is to be asked of the server in a new session. */
  wishes(): readonly Wish[] {
    return wishesOf(this.#level, this.#subscribed);
  }

  /** What the host is to be told of it: the lists of a server that was started anew need not be what they were. */
  news(): readonly Notification[] {
    return LISTS.filter((kind) => {
      const capability = this.#capabilities[kind];
      return isObject(capability) && capability['listChanged'] === true;
    }).map((kind) => ({ jsonrpc: '2.0', method: `notifications/${kind}/list_changed` }));
  }
}

/** The requests by which a server of the older era is told so. */
export function wishesOf(level: unknown, subscribed: ReadonlySet<string>): readonly Wish[] {
  return [
    ...(level === undefined ? [] : [{ method: 'logging/setLevel', params: { level } }]),
    ...[...subscribed].map((uri) => ({ method: 'resources/subscribe', params: { uri } })),
  ];
}
