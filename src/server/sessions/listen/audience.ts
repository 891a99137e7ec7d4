import type { Entry } from './log.ts';
import type { Subscriptions } from './subscriptions.ts';

/** The notification that a resource has changed. */
export const UPDATED = 'notifications/resources/updated';

/** Who listens. */
export interface Audience {
  /** The session, or '' for what belongs to none. */
  readonly scope: string;
  /** Whoever listens without a session; undefined where nothing tells one owner from another. */
  readonly owner: string | undefined;
  /** The resources that were named when the listener opened. */
  readonly resources: readonly string[];
}

/** Picks what a listener may hear, of what its log has. */
export type Wanted = <Each extends Pick<Entry, 'method' | 'params'>>(
  entries: readonly Each[],
) => Promise<readonly Each[]>;

/**
 * What a session's log has is for its listeners. Those without a session share a log: there a resource is told to the
 * owners who subscribed to it, and nobody else learns that it exists.
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

/** The resource that a notification tells of, where it is such a one. */
export function resourceOf(method: string, params: Entry['params']): string | undefined {
  const uri = params?.['uri'];
  return method === UPDATED && typeof uri === 'string' ? uri : undefined;
}
