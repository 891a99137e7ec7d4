import { randomUUID } from 'node:crypto';
import { messageOf } from '../errors.ts';
import { tell } from '../events.ts';
import { isObject, type Json } from '../json.ts';
import { checkOptions, FUNCTION, TEXT } from '../options.ts';
import type { Bus } from '../store/types.ts';

/** Where events are published. */
export interface EventBusOptions {
  /**
   * The topic on the bus. Servers that share a bus but not their tools need different ones.
   *
   * @defaultValue 'mcp-events'
   */
  readonly topic?: string | undefined;
  /** Called when the bus cannot be reached: other instances may have missed events. By default a warning of the process. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** Something that changed on a server: `ServerEvent` of the MCP SDK. */
export type ServerEvent = (
  | { kind: 'tools_list_changed' }
  | { kind: 'prompts_list_changed' }
  | { kind: 'resources_list_changed' }
  | { kind: 'resource_updated'; uri: string }
) & { params?: { [key: string]: unknown } };

type Hear = (event: ServerEvent) => void;

/** `ServerEventBus` of the MCP SDK, version 2, over a bus. */
export interface ServerEventBus {
  /** Tells the listeners of this instance at once, and those of the others over the bus. */
  publish(event: ServerEvent): void;
  /** Adds a listener. The function returned removes it. */
  subscribe(listener: (event: ServerEvent) => void): () => void;
  /** Resolves once events of other instances arrive; rejects if the bus cannot be reached. */
  readonly ready: Promise<void>;
  /** Stops listening to the bus, which stays open. */
  close(): Promise<void>;
}

/**
 * Tells `subscriptions/listen` streams at all instances what one instance publishes. Give it to `createMcpHandler` of SDK
 * version 2 as `bus`.
 *
 * Events reach the other instances at most once, and only those that listen at that time. A listener that publishes does not
 * get its own event back.
 *
 * @throws ValiseError `bad-option` if an option is not what it takes.
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
      // As JSON has it: the message must not depend on what becomes of the object.
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

/** The event in a message of another instance; undefined for those of this one, and for what is no event. */
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
