import { isObject, type Json, type JsonObject } from '../core/json.ts';
import { sha256 } from '../core/sha256.ts';
import { clock } from '../store/kit/clock.ts';
import { collection, type Schema } from '../store/kit/collection.ts';
import { ownProcess } from '../store/kit/process.ts';
import type { Store } from '../store/types.ts';
import type { ClientEventSource, ClientEvents } from './events.ts';

/** An event that a process of this principal has recorded in the store. It contains no secrets. */
export interface RecordedEvent {
  readonly at: Date;
  /** The process: its id, and a short name of its host. */
  readonly process: string;
  readonly name: keyof ClientEvents;
  readonly event: Readonly<Record<string, unknown>>;
}

/** The option of {@link RecordedEvents}. */
export interface RecordOptions {
  /**
   * Records this process's events in the store, for other processes to read: the last 200, for a day. `valise console`
   * shows them. Warnings are not recorded.
   *
   * @defaultValue false
   */
  readonly recordEvents?: boolean | undefined;
}

/** The part of a client's Valise that reads recorded events. */
export interface RecordedEvents {
  /**
   * Returns what processes of this principal with the option `recordEvents` have recorded in the store, oldest first.
   *
   * @example
   * ```ts
   * for (const { at, process, name } of await valise.recordedEvents()) console.log(at, process, name);
   * ```
   */
  recordedEvents(): Promise<readonly RecordedEvent[]>;
}

/** The last events of one process, oldest first. */
interface Ring {
  readonly process: string;
  readonly events: readonly (readonly [at: number, name: string, event: JsonObject])[];
}

/** How many events of one process are stored. */
const MOST_EVENTS = 200;
/** The largest event that is stored, as JSON. A server chooses the names in it. */
const MOST_BYTES = 2048;
/** How long the events of a process are stored after its last one, in seconds. */
const TTL = 86_400;
/** How many processes are read. */
const MOST_PROCESSES = 200;
/** How long events wait to be written together, in milliseconds. */
const DELAY = 250;

const RINGS: Schema<Ring> = {
  kind: 'list of events',
  version: 1,
  read({ process, events }) {
    if (typeof process !== 'string' || !Array.isArray(events)) return undefined;
    const isEvent = (each: unknown): boolean =>
      Array.isArray(each) && Number.isFinite(each[0]) && typeof each[1] === 'string' && isObject(each[2]);
    return { process, events: events.filter(isEvent) };
  },
  write: (ring) => ring as unknown as JsonObject,
};

/** Warnings are left out: a listener would keep them from being printed. */
const RECORDED: readonly (keyof ClientEvents)[] = [
  'set',
  'deleted',
  'evicted',
  'refused',
  'session-ended',
  'session-refused',
  'resumed',
  'renewed',
  'sign-in-elsewhere',
  'signed-in',
  'refreshed',
  'message-too-large',
];

/** Records the events of this process in the store, within limits. Returns a function that writes what is left and stops. */
export function recordEvents(
  store: Store,
  principal: string,
  events: ClientEventSource,
): () => Promise<void> {
  const rings = collection(store, prefixOf(principal), RINGS);
  const { host, pid, started } = ownProcess();
  const id = `${host}-${pid}-${started}`;
  let latest: Ring['events'] = [];
  let stopWaiting: (() => void) | undefined;
  let writing: Promise<unknown> = Promise.resolve();
  const write = (): void => {
    stopWaiting = undefined;
    const ring = { process: `${pid}@${host}`, events: latest };
    // Nothing depends on the record, so a store that cannot write it is no reason to fail.
    writing = writing.then(() => rings.put(id, ring, { ttl: TTL })).catch(() => undefined);
  };
  const forget = RECORDED.map((name) =>
    events.on(name, (event) => {
      const text = JSON.stringify(event);
      if (text.length > MOST_BYTES) return;
      latest = [...latest, [clock.now(), name, JSON.parse(text) as JsonObject] as const].slice(-MOST_EVENTS);
      stopWaiting ??= clock.whileAlive(DELAY, write);
    }),
  );
  return async () => {
    for (const stop of forget) stop();
    if (stopWaiting) {
      stopWaiting();
      write();
    }
    await writing;
  };
}

/** Returns the events that processes of this principal have recorded, oldest first. */
export async function recordedEvents(store: Store, principal: string): Promise<RecordedEvent[]> {
  const found: RecordedEvent[] = [];
  let processes = 0;
  for await (const page of collection(store, prefixOf(principal), RINGS).pages('')) {
    for (const [, { value }] of page)
      for (const [at, name, event] of value?.events ?? [])
        found.push({
          at: new Date(at),
          process: value?.process ?? '',
          name: name as keyof ClientEvents,
          event: event as Readonly<Record<string, Json>>,
        });
    processes += page.length;
    if (processes >= MOST_PROCESSES) break;
  }
  return found.sort((one, other) => one.at.getTime() - other.at.getTime());
}

function prefixOf(principal: string): string {
  return `events/${sha256(principal)}/`;
}
