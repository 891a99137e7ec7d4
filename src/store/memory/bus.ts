import { ValiseError } from '../../core/errors.ts';
import { Events } from '../../core/events.ts';
import type { Json } from '../../core/json.ts';
import { toText } from '../driver.ts';
import type { Bus } from '../types.ts';

type Hub = Events<Record<string, Json>>;

const hubs = new Map<string, { readonly hub: Hub; users: number }>();

/**
 * Creates a bus inside this process. Buses with the same name share messages; a bus without a name is isolated.
 *
 * @example
 * ```ts
 * const bus = memoryBus();
 * const end = await bus.subscribe('sessions', (message) => console.log(message));
 * await bus.publish('sessions', { deleted: 'abc' });
 * await end();
 * ```
 */
export function memoryBus(name?: string): Bus {
  const { hub, leave } = join(name);
  const ends = new Set<() => void>();
  let closed = false;
  const check = () => {
    if (closed) throw closedBusError();
  };
  return {
    async publish(topic, message) {
      check();
      // Messages pass through JSON, as on every other bus: each listener receives a copy, exactly as it would arrive
      // over the wire.
      const text = toText(topic, message);
      if (hub.has(topic)) queueMicrotask(() => hub.emit(topic, text));
    },
    async subscribe(topic, listener) {
      check();
      const off = hub.on(topic, (text) => listener(JSON.parse(text as string) as Json));
      ends.add(off);
      return async () => {
        ends.delete(off);
        off();
      };
    },
    async close() {
      if (closed) return;
      closed = true;
      for (const off of ends) off();
      leave();
    },
  };
}

/** Returns the error of a closed bus. */
export function closedBusError(): ValiseError {
  return new ValiseError('closed', 'This bus has been closed.', { next: 'Open it again to continue.' });
}

function join(name: string | undefined): { hub: Hub; leave(): void } {
  if (name === undefined) return { hub: new Events(), leave: () => {} };
  let shared = hubs.get(name);
  if (!shared) hubs.set(name, (shared = { hub: new Events(), users: 0 }));
  shared.users++;
  return {
    hub: shared.hub,
    leave: () => {
      if (--shared.users === 0) hubs.delete(name);
    },
  };
}
