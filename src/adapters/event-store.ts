import { randomBytes } from 'node:crypto';
import { type Duration, seconds } from '../core/duration.ts';
import { ValiseError } from '../core/errors.ts';
import { isObject, type Json, type JsonObject } from '../core/json.ts';
import { ANYTHING, BYTES, checkOptions } from '../core/options.ts';
import { clock } from '../store/kit/clock.ts';
import { type Collection, collection, type Schema } from '../store/kit/collection.ts';
import { keysOf } from '../store/page.ts';
import type { Store } from '../store/types.ts';
import {
  COUNT,
  keyPart,
  NAME,
  type RecordIndex,
  recordIndex,
  requireOption,
  shardedIndex,
} from './records.ts';

/** The session of an event store, and its limits. */
export interface EventStoreOptions {
  /**
   * The transport session that owns the streams, or another value that identifies one client. Event ids of one session
   * are unknown in every other, because all sessions of the SDK use the same name for their standalone stream.
   */
  readonly session: string;
  /**
   * How long a stream can be resumed after its last event.
   *
   * @defaultValue '1h'
   */
  readonly ttl?: Duration | undefined;
  /**
   * The maximum number of events per stream. The oldest are dropped first.
   *
   * @defaultValue 1000
   */
  readonly maxEvents?: number | undefined;
  /**
   * The maximum size of one stream, in bytes of JSON. The oldest events are dropped first.
   *
   * @defaultValue 1048576
   */
  readonly maxBytes?: number | undefined;
  /**
   * The maximum number of streams per session. Each POST request that is answered with a stream counts; the standalone
   * stream does not. The oldest is dropped first.
   *
   * @defaultValue 64
   */
  readonly maxStreams?: number | undefined;
  /**
   * The maximum number of sessions with events in the store, over all instances. The streams of the session that was
   * idle longest are dropped first. Use the same value at every instance. A limit above 256 is kept in parts, and takes
   * effect when one part is full, shortly before the whole is.
   *
   * @defaultValue 10000
   */
  readonly maxSessions?: number | undefined;
}

/** `EventStore` of the MCP SDK, in both majors. */
export interface EventStore {
  storeEvent(streamId: string, message: object): Promise<string>;
  getStreamIdForEventId(eventId: string): Promise<string | undefined>;
  replayEventsAfter(
    lastEventId: string,
    options: { readonly send: (eventId: string, message: never) => Promise<void> },
  ): Promise<string>;
}

/** An event: its number in the stream, and the JSON text of its message. */
type StoredEvent = readonly [number: number, message: string];

/** A part of a stream that no longer changes. */
interface Segment {
  readonly events: readonly StoredEvent[];
}

/** The end of a stream and the location of the rest. Every event is added by one conditional write of this record. */
interface Head extends Segment {
  /** Distinguishes this stream from an expired one with the same name. */
  readonly epoch: string;
  /** The number of the next event. */
  readonly next: number;
  /** Events before this number have been dropped. */
  readonly first: number;
  readonly segments: readonly SegmentInfo[];
  /** When the stream was last counted in its session, in milliseconds since 1970. */
  readonly countedAt: number;
}

/** The location, content and write time of a segment. */
interface SegmentInfo {
  readonly id: string;
  readonly start: number;
  readonly count: number;
  readonly length: number;
  readonly at: number;
}

const isEvent = (value: unknown): value is StoredEvent =>
  Array.isArray(value) && typeof value[0] === 'number' && typeof value[1] === 'string';
const isInfo = (value: unknown): value is SegmentInfo =>
  isObject(value) &&
  typeof value['id'] === 'string' &&
  ['start', 'count', 'length', 'at'].every((name) => typeof value[name] === 'number');

const SEGMENT: Schema<Segment> = {
  kind: 'part of an event stream',
  version: 1,
  read: ({ events }) => (Array.isArray(events) && events.every(isEvent) ? { events } : undefined),
};

const HEAD: Schema<Head> = {
  kind: 'event stream',
  version: 1,
  read({ epoch, next, first, segments, events, countedAt }) {
    if (typeof epoch !== 'string' || typeof countedAt !== 'number') return undefined;
    if (typeof next !== 'number' || typeof first !== 'number') return undefined;
    if (!Array.isArray(segments) || !segments.every(isInfo)) return undefined;
    if (!Array.isArray(events) || !events.every(isEvent)) return undefined;
    return { epoch, next, first, segments, events, countedAt };
  },
};

/** The size at which the end of a stream becomes a segment, which is not written again. */
const SEGMENT_EVENTS = 32;
const SEGMENT_LENGTH = 65_536;

/**
 * The name that both SDK majors use for the one stream of a session that belongs to no request. It is not counted, so
 * that requests do not evict it.
 */
const STANDALONE = '_GET_stream';

const PREFIX = 'adapters/events/';
const prefixOf = (session: string): string => `${PREFIX}of/${session}/`;

const ID = /^(\d{1,15})\.([\w-]{8})\.([\w.!~*'()%-]{1,400})$/;

/**
 * Stores the events of a Streamable HTTP transport, so that a client can resume a stream at any instance that shares
 * the store. Pass it as the option `eventStore` of the transports of both SDK majors. Create one per session.
 *
 * Events keep their order per stream. An event id becomes unknown when the stream expires, or when an event after it is
 * dropped. A client that resumes then gets an error, instead of missing messages silently.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const session = randomUUID();
 * const transport = new WebStandardStreamableHTTPServerTransport({
 *   sessionIdGenerator: () => session,
 *   eventStore: eventStore(store, { session }),
 * });
 * ```
 */
export function eventStore(store: Store, options: EventStoreOptions): EventStore {
  checkOptions('eventStore', options, {
    session: NAME,
    ttl: ANYTHING,
    maxEvents: COUNT,
    maxBytes: BYTES,
    maxStreams: COUNT,
    maxSessions: COUNT,
  });
  requireOption('eventStore', 'session', options.session);
  return new SessionEvents(store, options);
}

/** Messages of a stream that wait for the previous write, so that they are stored in the order of the calls. */
interface Waiting {
  readonly message: string;
  readonly resolve: (eventId: string) => void;
  readonly reject: (error: unknown) => void;
}

class SessionEvents implements EventStore {
  readonly #prefix: string;
  readonly #ttl: number;
  readonly #maxEvents: number;
  readonly #maxBytes: number;
  readonly #heads: Collection<Head>;
  readonly #segments: Collection<Segment>;
  readonly #streams: RecordIndex;
  readonly #sessions: RecordIndex;
  readonly #session: string;
  readonly #store: Store;
  readonly #waiting = new Map<string, Waiting[]>();

  /** When this instance last counted the session, in milliseconds since 1970. */
  #countedAt = 0;

  constructor(store: Store, options: EventStoreOptions) {
    const { maxStreams = 64, maxSessions = 10_000 } = options;
    this.#store = store;
    this.#session = keyPart(options.session);
    this.#prefix = prefixOf(this.#session);
    this.#ttl = seconds(options.ttl ?? '1h');
    this.#maxEvents = options.maxEvents ?? 1000;
    this.#maxBytes = options.maxBytes ?? 1_048_576;
    this.#sessions = shardedIndex(store, `${PREFIX}sessions`, { max: maxSessions, ttl: this.#ttl });
    this.#heads = collection(store, `${this.#prefix}head/`, HEAD);
    this.#segments = collection(store, `${this.#prefix}part/`, SEGMENT);
    this.#streams = recordIndex(store, `${this.#prefix}streams`, { max: maxStreams, ttl: this.#ttl });
  }

  storeEvent(streamId: string, message: object): Promise<string> {
    return new Promise((resolve, reject) => {
      const one = { message: JSON.stringify(message), resolve, reject };
      const waiting = this.#waiting.get(streamId);
      if (waiting) return void waiting.push(one);
      this.#waiting.set(streamId, [one]);
      void this.#writeAll(streamId);
    });
  }

  async getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    return (await this.#find(eventId))?.streamId;
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { readonly send: (eventId: string, message: never) => Promise<void> },
  ): Promise<string> {
    const found = await this.#find(lastEventId);
    if (!found) throw unknownEvent();
    const { streamId, after, head } = found;
    for (const { id, start, count } of head.segments) {
      if (start + count - 1 <= after) continue;
      const segment = await this.#segments.get(id);
      // The segment expired or was dropped since the head was read.
      if (!segment?.value) throw unknownEvent();
      await replay(streamId, head, segment.value, after, send);
    }
    await replay(streamId, head, head, after, send);
    return streamId;
  }

  async #find(eventId: string): Promise<{ streamId: string; after: number; head: Head } | undefined> {
    const [, number = '', epoch, name = ''] = ID.exec(eventId) ?? [];
    const streamId = decoded(name);
    if (streamId === undefined) return undefined;
    const stored = (await this.#heads.get(keyPart(streamId)))?.value;
    const head = stored && this.#trim(stored);
    const after = Number(number);
    if (!head || head.epoch !== epoch || after >= head.next || after < head.first - 1) return undefined;
    return { streamId, after, head };
  }

  /** Writes the waiting messages of a stream in batches until none are left. */
  async #writeAll(streamId: string): Promise<void> {
    for (let batch = this.#waiting.get(streamId); batch?.length; batch = this.#waiting.get(streamId)) {
      this.#waiting.set(streamId, []);
      try {
        const ids = await this.#append(
          streamId,
          batch.map(({ message }) => message),
        );
        for (const [index, { resolve }] of batch.entries()) resolve(ids[index] as string);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#waiting.delete(streamId);
  }

  async #append(streamId: string, messages: readonly string[]): Promise<readonly string[]> {
    const stream = keyPart(streamId);
    const obsolete = new Set<string>();
    let ids: string[] = [];
    let isCounted = true;
    let isNew = false;
    let last: Head = emptyStream();
    await this.#heads.update(
      stream,
      async (found) => {
        const now = clock.now();
        let head = found?.value ?? emptyStream();
        isNew = !found?.value;
        isCounted = this.#isRecent(head.countedAt, now);
        if (!isCounted) head = { ...head, countedAt: now };
        for (const { id } of head.segments) obsolete.add(id);
        ids = [];
        for (const message of messages) {
          if (head.events.length >= SEGMENT_EVENTS || lengthOf(head.events) >= SEGMENT_LENGTH) {
            const segment = await this.#split(stream, head);
            obsolete.add(segment.id);
            head = { ...head, events: [], segments: [...head.segments, segment] };
          }
          ids.push(idOf(streamId, head, head.next));
          head = { ...head, next: head.next + 1, events: [...head.events, [head.next, message]] };
        }
        return (last = this.#trim(head));
      },
      { ttl: this.#ttl },
    );
    // Deletes segments that were dropped, and segments from attempts that lost against another instance.
    for (const { id } of last.segments) obsolete.delete(id);
    await Promise.all([...obsolete].map((id) => this.#segments.delete(id)));
    const isFirst = streamId === STANDALONE ? isNew : !isCounted && (await this.#countStream(stream));
    // Another instance may have dropped the whole session, so a new start is counted again.
    if (isFirst || !this.#isRecent(this.#countedAt, clock.now())) await this.#countSession();
    return ids;
  }

  #isRecent(countedAt: number, now: number): boolean {
    return now - countedAt < (this.#ttl * 1000) / 2;
  }

  /** Writes the events at the end of a stream as a segment. */
  async #split(stream: string, { events, next }: Head): Promise<SegmentInfo> {
    const id = `${stream}/${randomBytes(9).toString('base64url')}`;
    await this.#segments.put(id, { events }, { ttl: this.#ttl });
    const [count, length] = [events.length, lengthOf(events)];
    return { id, start: next - count, count, length, at: clock.now() };
  }

  /** Counts a stream, and deletes the streams that exceed the limit. Returns whether it is the only one of the session. */
  async #countStream(stream: string): Promise<boolean> {
    const { evicted, isFirst } = await this.#streams.add(stream);
    for (const oldest of evicted) {
      const head = (await this.#heads.get(oldest))?.value;
      await this.#heads.delete(oldest);
      for (const { id } of head?.segments ?? []) await this.#segments.delete(id);
    }
    return isFirst;
  }

  /** Counts the session, and deletes the sessions that exceed the limit. */
  async #countSession(): Promise<void> {
    const { evicted } = await this.#sessions.add(this.#session);
    this.#countedAt = clock.now();
    for (const session of evicted) {
      for await (const key of keysOf(this.#store, prefixOf(session))) await this.#store.delete(key);
    }
  }

  /** Drops expired segments, then the oldest segments, then the oldest events at the end, until the limits hold. */
  #trim(head: Head): Head {
    const since = clock.now() - this.#ttl * 1000;
    let segments = head.segments.filter(({ at }) => at > since);
    let { events } = head;
    let count = segments.reduce((sum, segment) => sum + segment.count, events.length);
    let length = segments.reduce((sum, segment) => sum + segment.length, lengthOf(events));
    const isOver = (): boolean => count > this.#maxEvents || length > this.#maxBytes;
    for (let [oldest] = segments; oldest && isOver(); [oldest] = segments) {
      segments = segments.slice(1);
      count -= oldest.count;
      length -= oldest.length;
    }
    for (let [oldest] = events; oldest && isOver(); [oldest] = events) {
      events = events.slice(1);
      count--;
      length -= Buffer.byteLength(oldest[1]);
    }
    return { ...head, segments, events, first: segments[0]?.start ?? events[0]?.[0] ?? head.next };
  }
}

function emptyStream(): Head {
  const epoch = randomBytes(6).toString('base64url');
  return { epoch, next: 0, first: 0, segments: [], events: [], countedAt: 0 };
}

function lengthOf(events: readonly StoredEvent[]): number {
  return events.reduce((sum, [, message]) => sum + Buffer.byteLength(message), 0);
}

async function replay(
  streamId: string,
  head: Head,
  { events }: Segment,
  after: number,
  send: (eventId: string, message: never) => Promise<void>,
): Promise<void> {
  for (const [number, text] of events) {
    if (number <= after) continue;
    const message = JSON.parse(text) as Json;
    // The SDK stores `{}` to get an id for the start of a stream; it is not a message.
    if (isObject(message) && Object.keys(message).length === 0) continue;
    await send(idOf(streamId, head, number), message as JsonObject as never);
  }
}

function idOf(streamId: string, { epoch }: Head, number: number): string {
  return `${number}.${epoch}.${encodeURIComponent(streamId)}`;
}

function decoded(name: string): string | undefined {
  try {
    return name === '' ? undefined : decodeURIComponent(name);
  } catch {
    return undefined;
  }
}

function unknownEvent(): ValiseError {
  return new ValiseError(
    'not-found',
    'The stream cannot be resumed: this event is not known, or no longer.',
    {
      next: 'Start over without Last-Event-ID.',
    },
  );
}
