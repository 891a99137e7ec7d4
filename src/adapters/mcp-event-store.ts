import { type Duration, seconds } from '../core/duration.ts';
import { ValiseError } from '../core/errors.ts';
import { isObject, type Json } from '../core/json.ts';
import { ANYTHING, BYTES, checkOptions } from '../core/options.ts';
import type { Store } from '../store/types.ts';
import { COUNT, keyPart, NAME, recordIndex, requireOption, values } from './records.ts';

/** The owner of the subscriptions, and their limits. */
export interface McpEventStoreOptions {
  /** The MCP server and the signed-in user that the subscriptions belong to, for example `user-7 https://mcp.example.com`. */
  readonly owner: string;
  /**
   * The idle timeout of a subscription. Each delivery counts as use.
   *
   * @defaultValue '90d'
   */
  readonly ttl?: Duration | undefined;
  /**
   * The maximum number of subscriptions of the owner. Further ones are rejected (`limit-reached`).
   *
   * @defaultValue 100
   */
  readonly maxSubscriptions?: number | undefined;
  /**
   * The maximum size of one subscription, in bytes of JSON. Larger ones are rejected (`too-large`).
   *
   * @defaultValue 65536
   */
  readonly maxBytes?: number | undefined;
}

/** `MCPEventSubscription` of the AI SDK. */
interface Subscription {
  key: string;
  id?: string;
  name: string;
  arguments: { [key: string]: Value };
  definition: {
    [key: string]: unknown;
    name: string;
    description?: string | null;
    delivery: ('webhook' | 'poll' | 'push')[];
    inputSchema: boolean | Record<string, unknown>;
    payloadSchema: boolean | Record<string, unknown>;
  };
  delivery: { mode: 'webhook'; url: string; secret: string };
  refreshBefore?: string | null;
  cursor: string | null;
  truncated: boolean;
  ttlMs?: number | null;
  maxAgeMs?: number;
  status: 'pending' | 'active';
}

type Value = string | number | boolean | null | Value[] | { [key: string]: Value };

/** `MCPEventStore` of the AI SDK. */
export interface McpEventStore {
  get(key: string): Promise<Subscription | undefined>;
  getById(id: string): Promise<Subscription | undefined>;
  set(subscription: Subscription): Promise<void>;
  /** Changes the given members only, atomically. Throws `not-found` if there is no such subscription. */
  update(key: string, patch: Partial<Subscription>): Promise<void>;
  delete(key: string): Promise<void>;
}

/**
 * Stores the event subscriptions of an AI SDK client, so that any instance can receive their webhooks. The secrets of
 * the webhooks are stored as they are: use a sealed store.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const subscriptions = mcpEventStore(store, { owner: `${user} ${url}` });
 * const client = await createMCPClient({ transport, experimental_events: { store: subscriptions } });
 * ```
 */
export function mcpEventStore(store: Store, options: McpEventStoreOptions): McpEventStore {
  checkOptions('mcpEventStore', options, {
    owner: NAME,
    ttl: ANYTHING,
    maxSubscriptions: COUNT,
    maxBytes: BYTES,
  });
  const owner = requireOption('mcpEventStore', 'owner', options.owner);
  const { maxSubscriptions: max = 100, maxBytes = 65_536 } = options;
  const ttl = seconds(options.ttl ?? '90d');
  const prefix = `adapters/mcp-events/${keyPart(owner)}/`;
  const index = recordIndex(store, `${prefix}index`, { max, ttl, full: () => full(max) });
  const subscriptions = values(store, `${prefix}key/`, {
    kind: 'subscription',
    ttl,
    maxBytes,
    indexOf: () => index,
  });
  const keysById = values(store, `${prefix}id/`, { kind: 'id of a subscription', ttl, maxBytes });
  const get = async (key: string) => (await subscriptions.get(key)) as unknown as Subscription | undefined;

  return {
    get,
    async getById(id) {
      const key = await keysById.get(id);
      const found = typeof key === 'string' ? await get(key) : undefined;
      return found?.id === id ? found : undefined;
    },
    async set(subscription) {
      await subscriptions.set(subscription.key, subscription);
      if (subscription.id !== undefined) await keysById.set(subscription.id, subscription.key);
    },
    async update(key, patch) {
      const given = JSON.parse(JSON.stringify({ ...patch, key })) as Json;
      await subscriptions.update(key, (found) => {
        if (!isObject(found) || !isObject(given)) throw unknown();
        return { ...found, ...given } as Json;
      });
      if (patch.id !== undefined) await keysById.set(patch.id, key);
    },
    async delete(key) {
      const found = await get(key);
      await subscriptions.delete(key);
      if (found?.id !== undefined) await keysById.delete(found.id);
    },
  };
}

function full(max: number): ValiseError {
  return new ValiseError(
    'limit-reached',
    `The subscription was not stored: there are ${max} subscriptions already.`,
    { next: 'Unsubscribe from some events, or raise maxSubscriptions.', outcome: 'not-done' },
  );
}

function unknown(): ValiseError {
  return new ValiseError('not-found', 'The subscription is not known, or no longer.', {
    next: 'Subscribe again.',
    outcome: 'not-done',
  });
}
