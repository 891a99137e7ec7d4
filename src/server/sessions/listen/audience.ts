import type { Entry } from './log.ts';
import type { Subscriptions } from './subscriptions.ts';

/** The method of the notification that a resource has changed. */
export const UPDATED = 'notifications/resources/updated';

/** The recipients that a listener stands for. */
export interface Audience {
  /** The session, or '' for notifications that belong to none. */
  readonly scope: string;
  /** The owner who listens without a session, or undefined if nothing tells one owner from another. */
  readonly owner: string | undefined;
  /** The resources that were named when the listener opened. */
  readonly resources: readonly string[];
}

/** Selects what a listener may receive from its log. */
export type Wanted = <Each extends Pick<Entry, 'method' | 'params'>>(
  entries: readonly Each[],
) => Promise<readonly Each[]>;

/**
 * Returns the filter of a listener.
 *
 * Everything in a session's log is for its listeners. Listeners without a session share a log. There, a resource is announced
 * only to owners who subscribed to it, and nobody else learns that it exists.
 */
export function wantedBy({ scope, owner, resources }: Audience, subscriptions: Subscriptions): Wanted {
  const wants = async (uri: string): Promise<boolean> =>
    owner === undefined ? resources.includes(uri) : subscriptions.has(uri, owner);
  return async (entries) => {
    if (scope !== '') return entries;
    const uris = new Map<string, Promise<boolean>>();
    const wanted = await Promise.all(
      entries.map(({ method, params }) => {
        const uri = resourceOf(method, params);
        if (uri === undefined) return true;
        const asked = uris.get(uri) ?? wants(uri);
        uris.set(uri, asked);
        return asked;
      }),
    );
    return entries.filter((_, index) => wanted[index]);
  };
}

/** Returns the resource that a notification is about, if it announces an update. */
export function resourceOf(method: string, params: Entry['params']): string | undefined {
  const uri = params?.['uri'];
  return method === UPDATED && typeof uri === 'string' ? uri : undefined;
}
