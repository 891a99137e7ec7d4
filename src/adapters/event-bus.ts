import { randomUUID } from 'node:crypto';
import { messageOf } from '../core/errors.ts';
import { tell } from '../core/events.ts';
import { isObject, type Json } from '../core/json.ts';
import { checkOptions, FUNCTION, TEXT } from '../core/options.ts';
import type { Bus } from '../store/types.ts';

/** Options of {@link eventBus}. */
export interface EventBusOptions {
  /**
   * The topic on the bus. Servers that share a bus but not their tools need different topics.
   *
   * @defaultValue 'mcp-events'
   */
  readonly topic?: string | undefined;
  /** Called when the bus cannot be reached and other instances may have missed events. Defaults to a process warning. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** A change on a server: `ServerEvent` of the MCP SDK. */
export type ServerEvent = (
  | { kind: 'tools_list_changed' }
  | { kind: 'prompts_list_changed' }
  | { kind: 'resources_list_changed' }
  | { kind: 'resource_updated'; uri: string }
) & { params?: { [key: string]: unknown } };

type Hear = (event: ServerEvent) => void;

/** `ServerEventBus` of the MCP SDK, version 2, over a bus. */
export interface ServerEventBus {
  /** Calls the listeners of this instance immediately, and those of other instances over the bus. */
  publish(event: ServerEvent): void;
  /** Adds a listener. Returns a function that removes it. */
  subscribe(listener: (event: ServerEvent) => void): () => void;
  /** Resolves once events of other instances arrive. Rejects if the bus cannot be reached. */
  readonly ready: Promise<void>;
  /** Stops listening to the bus. The bus stays open. */
  close(): Promise<void>;
}

/**
 * Delivers the events that one instance publishes to the `subscriptions/listen` streams of all instances. Pass it to
 * `createMcpHandler` of SDK version 2 as `bus`.
 *
 * Events reach other instances at most once, and only those that are listening at that time. A listener that publishes
 * does not receive its own event.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const handler = createMcpHandler(factory, { bus: eventBus(await openBus('redis://localhost')) });
 * handler.notify.toolsChanged();
 * ```
 */
export function eventBus(bus: Bus, options: EventBusOptions = {}): ServerEventBus {
  checkOptions('eventBus', options, { topic: TEXT, onError: FUNCTION });
  const { topic = 'mcp-events', onError = warn } = options;
  const instance = randomUUID();
  const listeners = new Map<object, Hear>();
  const running = new Set<object>();
  const deliver = (event: ServerEvent): void => {
    for (const [id, listener] of [...listeners]) {
      if (running.has(id) || !listeners.has(id)) continue;
      running.add(id);
      tell(listener, event);
      running.delete(id);
    }
  };
  const subscribed = bus.subscribe(topic, (message) => {
    const event = readEvent(message, instance);
    if (event) deliver(event);
  });
  subscribed.catch(onError);
  const ready = subscribed.then(() => undefined);
  ready.catch(() => undefined);

  return {
    ready,
    publish(event) {
      deliver(event);
      // The event is copied as JSON, so that later changes to the object do not affect the message.
      const message = { from: instance, event: JSON.parse(JSON.stringify(event)) as Json };
      bus.publish(topic, message).catch(onError);
    },
    subscribe(listener) {
      const id = {};
      listeners.set(id, listener);
      return () => void listeners.delete(id);
    },
    async close() {
      listeners.clear();
      await subscribed.then(
        (end) => end(),
        () => undefined,
      );
    },
  };
}

const LISTS = ['tools_list_changed', 'prompts_list_changed', 'resources_list_changed'] as const;

/** Returns the event in a message of another instance. Returns undefined for messages of this instance and for invalid events. */
function readEvent(message: Json, instance: string): ServerEvent | undefined {
  if (!isObject(message) || message['from'] === instance || !isObject(message['event'])) return undefined;
  const { kind, uri, params } = message['event'];
  const rest = isObject(params) ? { params } : {};
  const list = LISTS.find((name) => name === kind);
  if (list) return { kind: list, ...rest };
  return kind === 'resource_updated' && typeof uri === 'string' ? { kind, uri, ...rest } : undefined;
}

function warn(error: unknown): void {
  const text = `Events of an MCP server may not have reached other instances: ${messageOf(error)}`;
  process.emitWarning(text, { type: 'ValiseWarning', code: 'event-bus' });
}
