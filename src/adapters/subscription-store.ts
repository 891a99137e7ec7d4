import { randomUUID } from 'node:crypto';
import { type Duration, seconds } from '../core/duration.ts';
import { ValiseError } from '../core/errors.ts';
import { isObject, type Json, type JsonObject } from '../core/json.ts';
import { ANYTHING, BYTES, checkOptions, FUNCTION } from '../core/options.ts';
import { clock } from '../store/kit/clock.ts';
import { collection, type Schema } from '../store/kit/collection.ts';
import { secondsUntil } from '../store/kit/update.ts';
import type { Store } from '../store/types.ts';
import { COUNT, keyPart } from './records.ts';

/** Where replay begins, and the limits of subscriptions. */
export interface SubscriptionStoreOptions {
  /**
   * Returns where the deliveries of a new subscription begin, for the `cursor` that the client sent. By default there is
   * no replay: deliveries begin now, and a client that sent a cursor is told that events are missing (`truncated`).
   */
  readonly replay?: ((subscription: WebhookSubscription) => MaybePromise<ReplayStart>) | undefined;
  /**
   * How long a subscriber has to confirm its endpoint.
   *
   * @defaultValue '5m'
   */
  readonly reservation?: Duration | undefined;
  /**
   * The maximum number of subscriptions per principal, including unconfirmed ones. Further ones are rejected (-32013).
   *
   * @defaultValue 100
   */
  readonly maxSubscriptions?: number | undefined;
  /**
   * The maximum size of all subscriptions of a principal, in bytes of JSON. Further ones are rejected (-32013).
   *
   * @defaultValue 262144
   */
  readonly maxBytes?: number | undefined;
}

type MaybePromise<Value> = Value | Promise<Value>;

interface ReplayStart {
  readonly cursor: string | null;
  readonly truncated: boolean;
}

interface SubscriptionKey {
  id: string;
  principal: string;
  name: string;
  arguments: Record<string, unknown>;
  url: string;
}

/** A subscription to deliver to: `ExperimentalMcpWebhookSubscription` of mcp-handler. */
export interface WebhookSubscription extends SubscriptionKey {
  secret: string;
  refreshBefore: string | null;
  cursor: string | null;
  maxAgeMs?: number;
}

interface DeliveryStatus {
  active: boolean;
  lastDeliveryAt?: string;
  lastError:
    | 'connection_refused'
    | 'timeout'
    | 'tls_error'
    | 'http_4xx'
    | 'http_5xx'
    | 'challenge_failed'
    | null;
  failedSince?: string;
  throttled?: boolean;
  retryAfterMs?: number;
}

interface SubscriptionState {
  cursor: string | null;
  truncated: boolean;
  deliveryStatus?: DeliveryStatus;
}

/** `ExperimentalMcpSubscriptionStore` of mcp-handler, and what the worker that delivers needs. */
export interface SubscriptionStore {
  prepare(key: SubscriptionKey): Promise<string>;
  upsert(
    subscription: WebhookSubscription,
    context: unknown,
    operationId: string,
  ): Promise<SubscriptionState>;
  remove(key: SubscriptionKey): Promise<boolean>;
  /** Yields the subscriptions to an event that have not expired. `cursor` is the last acknowledged delivery. */
  active(name: string): AsyncGenerator<WebhookSubscription, void>;
  /**
   * Records a delivery. Pass the `cursor` only if everything up to it was acknowledged. Returns the subscription as it
   * is now, or undefined if it was removed or has expired, so that the worker stops.
   */
  delivered(
    subscription: Pick<SubscriptionKey, 'id' | 'principal'>,
    delivery?: { readonly cursor?: string; readonly status?: DeliveryStatus },
  ): Promise<WebhookSubscription | undefined>;
}

/** A confirmed subscription. */
interface Grant extends WebhookSubscription {
  /** The operation that wrote it, so that a repeated commit is recognized. */
  readonly operation: string;
  readonly truncated: boolean;
  readonly status?: DeliveryStatus;
}

/** The state of one subscription id: the last attempt to subscribe, and what was confirmed. */
interface Slot {
  readonly pending?: { readonly operation: string; readonly expiresAt: number };
  readonly grant?: Grant;
}

/** All subscriptions of one principal, so that the limits and the fencing are atomic. */
interface Slots {
  readonly slots: Readonly<Record<string, Slot>>;
}

const SCHEMA: Schema<Slots> = {
  kind: 'subscriptions of a principal',
  version: 1,
  read: ({ slots }) => (isObject(slots) ? { slots: slots as Slots['slots'] } : undefined),
};

const PREFIX = 'adapters/subscriptions/';

/**
 * Stores the webhook subscriptions of a server on mcp-handler, for all instances that share the store. A worker at any
 * instance delivers to what `active` yields. The secrets of the webhooks are stored as they are: use a sealed store.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const subscriptions = subscriptionStore(store);
 * experimental_registerMcpEvents(server, { subscriptions, ...events });
 * for await (const subscription of subscriptions.active('work_item.changed')) await deliver(subscription);
 * ```
 */
export function subscriptionStore(store: Store, options: SubscriptionStoreOptions = {}): SubscriptionStore {
  checkOptions('subscriptionStore', options, {
    replay: FUNCTION,
    reservation: ANYTHING,
    maxSubscriptions: COUNT,
    maxBytes: BYTES,
  });
  const { maxSubscriptions = 100, maxBytes = 262_144, replay = noReplay } = options;
  const reservation = seconds(options.reservation ?? '5m') * 1000;
  const principals = collection(store, PREFIX, SCHEMA);

  /** Changes the slot of one subscription. Slots that have expired are dropped on the way. */
  const change = async (
    { id, principal }: Pick<SubscriptionKey, 'id' | 'principal'>,
    next: (slot: Slot | undefined) => MaybePromise<Slot | null | undefined>,
  ): Promise<void> => {
    await principals.update(
      keyPart(principal),
      async (found) => {
        const slots = living(found?.value?.slots ?? {});
        const slot = await next(Object.hasOwn(slots, id) ? slots[id] : undefined);
        if (slot === undefined) return undefined;
        const { [id]: _, ...others } = slots;
        const all = slot ? { ...others, [id]: slot } : others;
        const count = Object.keys(all).length;
        if (slot && count > maxSubscriptions) throw await full();
        if (slot && Buffer.byteLength(JSON.stringify(all)) > maxBytes) throw await full();
        return count === 0 ? null : { slots: all };
      },
      { ttl: lifetimeOf, durable: true },
    );
  };

  return {
    async prepare(key) {
      const operation = randomUUID();
      const pending = { operation, expiresAt: clock.now() + reservation };
      await change(key, (slot) => ({ ...slot, pending }));
      return operation;
    },
    async upsert(subscription, _context, operation) {
      let state: SubscriptionState | undefined;
      await change(subscription, async (slot) => {
        const { pending, grant } = slot ?? {};
        if (grant?.operation === operation) {
          state = stateOf(grant);
          return undefined;
        }
        if (pending?.operation !== operation) throw stale();
        // A subscription that already gets deliveries continues from its cursor.
        const start = grant ? { cursor: grant.cursor, truncated: false } : await replay(subscription);
        const { cursor, truncated } = start;
        const next: Grant = { ...subscription, operation, cursor, truncated };
        state = stateOf(next);
        return { grant: next };
      });
      return state as SubscriptionState;
    },
    async remove(key) {
      let existed = false;
      await change(key, (slot) => {
        existed = slot !== undefined;
        return existed ? null : undefined;
      });
      return existed;
    },
    async *active(name) {
      for await (const page of principals.pages('')) {
        for (const [, { value }] of page) {
          for (const { grant } of Object.values(living(value?.slots ?? {})))
            if (grant?.name === name && grant.status?.active !== false) yield subscriptionOf(grant);
        }
      }
    },
    async delivered(key, { cursor, status } = {}) {
      let current: Grant | undefined;
      await change(key, (slot) => {
        current = slot?.grant;
        if (!slot || !current || (cursor === undefined && status === undefined)) return undefined;
        current = { ...current, ...(cursor !== undefined && { cursor }), ...(status && { status }) };
        return { ...slot, grant: current };
      });
      return current && subscriptionOf(current);
    },
  };
}

function noReplay({ cursor }: WebhookSubscription): ReplayStart {
  return { cursor: null, truncated: cursor !== null };
}

/** Drops reservations and grants that have expired. */
function living(slots: Slots['slots']): Record<string, Slot> {
  const now = clock.now();
  const kept: Record<string, Slot> = {};
  for (const [id, { pending, grant }] of Object.entries(slots)) {
    const slot: Slot = {
      ...(pending && pending.expiresAt > now && { pending }),
      ...(grant && expiryOf(grant) > now && { grant }),
    };
    if (slot.pending || slot.grant) kept[id] = slot;
  }
  return kept;
}

function expiryOf({ refreshBefore }: Grant): number {
  return refreshBefore === null ? Number.POSITIVE_INFINITY : Date.parse(refreshBefore);
}

/** The record lives as long as the last of its subscriptions, which may be without end. */
function lifetimeOf(next: Json): number | undefined {
  const { slots = {} } = SCHEMA.read(next as JsonObject) ?? {};
  const ends = Object.values(slots).flatMap(({ pending, grant }) => [
    ...(pending ? [pending.expiresAt] : []),
    ...(grant ? [expiryOf(grant)] : []),
  ]);
  const last = Math.max(...ends);
  return Number.isFinite(last) ? secondsUntil(last) : undefined;
}

function stateOf({ cursor, truncated, status }: Grant): SubscriptionState {
  return { cursor, truncated, ...(status && { deliveryStatus: status }) };
}

function subscriptionOf({
  operation: _,
  truncated: __,
  status: ___,
  ...subscription
}: Grant): WebhookSubscription {
  return subscription;
}

/** Returns the error that mcp-handler passes on as "Resource exhausted". It hides all others from the client. */
async function full(): Promise<Error> {
  const message = 'The principal has too many subscriptions.';
  try {
    const { ProtocolError } = await import('@modelcontextprotocol/server');
    return new ProtocolError(-32013, message);
  } catch (cause) {
    const next = 'Unsubscribe from some events, or raise maxSubscriptions or maxBytes.';
    return new ValiseError('limit-reached', message, { next, outcome: 'not-done', cause });
  }
}

function stale(): ValiseError {
  return new ValiseError(
    'already-done',
    'The subscription was not stored: the attempt to subscribe has expired, was removed, or was replaced by another.',
    { next: 'Subscribe again.', outcome: 'not-done' },
  );
}
