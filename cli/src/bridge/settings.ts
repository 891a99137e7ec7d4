import { isObject, type Notification, type Params, type Request, type Result } from 'mcp-valise/internal';

/** The lists of a server, and the newer era's name for the notification that one of them has changed. */
export const LISTS = {
  tools: 'toolsListChanged',
  prompts: 'promptsListChanged',
  resources: 'resourcesListChanged',
} as const;

/** Returns the lists whose changes the server announces. */
export function changingLists(capabilities: unknown): (keyof typeof LISTS)[] {
  return (Object.keys(LISTS) as (keyof typeof LISTS)[]).filter((kind) =>
    offers(capabilities, kind, 'listChanged'),
  );
}

/** Whether a server declares a feature of one of its capabilities. */
export function offers(capabilities: unknown, kind: string, feature: string): boolean {
  const capability = isObject(capabilities) ? capabilities[kind] : undefined;
  return isObject(capability) && capability[feature] === true;
}

/**
 * What a server of the older era remembers for its host while their session lasts. If the server loses it, the host does
 * not notice, so the bridge restores it.
 */
export class HostSettings {
  readonly subscribed = new Set<string>();
  logLevel: unknown;
  #capabilities: unknown;

  /** Records a request that an older server has accepted. */
  accepted({ method, params = {} }: Request, result: Result): void {
    const uri = String(params['uri']);
    if (method === 'resources/subscribe') this.subscribed.add(uri);
    else if (method === 'resources/unsubscribe') this.subscribed.delete(uri);
    else if (method === 'logging/setLevel') this.logLevel = params['level'];
    else if (method === 'initialize') {
      this.subscribed.clear();
      this.logLevel = undefined;
      this.#capabilities = result['capabilities'];
    }
  }

  /** Returns the requests that restore the settings in a new session. */
  requests(): { readonly method: string; readonly params: Params }[] {
    const { logLevel: level, subscribed } = this;
    return [
      ...(level === undefined ? [] : [{ method: 'logging/setLevel', params: { level } }]),
      ...[...subscribed].map((uri) => ({ method: 'resources/subscribe', params: { uri } })),
    ];
  }

  /** Returns the notifications for the host of a restarted server, whose lists may have changed. */
  notifications(): Notification[] {
    return changingLists(this.#capabilities).map((kind) => ({
      jsonrpc: '2.0',
      method: `notifications/${kind}/list_changed`,
    }));
  }
}
