import { lowerText, mayHaveTop } from './drafts.ts';
import { MAX_MESSAGE, tooLargeError } from './limit.ts';

const BLANK_LINE = /\r\n\r\n|\n\n|\r\r/g;
const LONGEST_END = '\r\n\r\n'.length;
/** The maximum length of an event id that is stored and sent back, because it travels in a header. */
export const MAX_EVENT_ID = 4096;

type Bytes = Uint8Array<ArrayBuffer>;

/** Observes a stream of server-sent events. */
export interface StreamWatch {
  /** Called with the id of the latest whole events, once the reader of the stream can receive them. */
  readonly read?: ((lastEventId: string) => void) | undefined;
  /** Called when an event has an id that is too long to be sent back in a header. It counts as an event without an id. */
  readonly skipped?: (() => void) | undefined;
  /** Called when the stream has ended, was interrupted, or is no longer read. */
  readonly ended?: (() => void) | undefined;
  /** The maximum size of one event. */
  readonly maxBytes?: number | undefined;
  /**
   * Called when an event is larger, or has no end. Returns the text to use instead, as the last event of the stream, or
   * an error with which the stream ends.
   */
  readonly exceeded?: (() => string | Error) | undefined;
}

/**
 * Returns the stream with its messages lowered. Chunks without anything to lower pass unchanged. It reads on demand,
 * which is considerably cheaper than piping through a `TransformStream`.
 */
export function lowerSse(body: ReadableStream<Bytes>, watch: StreamWatch = {}): ReadableStream<Bytes> {
  const { maxBytes = MAX_MESSAGE } = watch;
  const reader = body.getReader();
  let lowering: SseLowering<Bytes | string> | undefined;
  const pull = (controller: ReadableStreamDefaultController<Bytes | string>): Promise<void> =>
    reader.read().then(
      ({ done, value }) => {
        lowering ??= new SseLowering(BYTES);
        const out = done ? lowering.end() : lowering.take(value);
        if (out) controller.enqueue(out);
        lowering.tell(watch);
        if (!done && lowering.held > maxBytes) {
          const last = watch.exceeded?.() ?? tooLargeError('event', maxBytes);
          void reader.cancel().catch(() => {});
          if (typeof last === 'string') controller.enqueue(lowering.made(last));
          watch.ended?.();
          if (typeof last !== 'string') throw last;
          controller.close();
          return undefined;
        }
        if (done) {
          controller.close();
          watch.ended?.();
          return undefined;
        }
        return out ? undefined : pull(controller);
      },
      (error: unknown) => {
        watch.ended?.();
        throw error;
      },
    );
  const cancel = (reason: unknown): Promise<void> => {
    watch.ended?.();
    return reader.cancel(reason);
  };
  const lowered = new ReadableStream<Bytes | string>({ pull, cancel }, { highWaterMark: 0 });
  const { pipeThrough } = lowered;
  // Both SDKs decode the bytes first. Here they are already text, which saves one stream, or some percent of a call.
  lowered.pipeThrough = ((transform: ReadableWritablePair, options?: StreamPipeOptions) => {
    if (lowering || lowered.locked || options || !decodesPlainly(transform))
      return pipeThrough.call(lowered, transform, options);
    lowering = new SseLowering(TEXT);
    return lowered;
  }) as typeof pipeThrough;
  return lowered as ReadableStream<Bytes>;
}

function decodesPlainly(transform: object): boolean {
  if (!(transform instanceof TextDecoderStream)) return false;
  const { encoding, fatal, ignoreBOM } = transform;
  return encoding === 'utf-8' && !fatal && !ignoreBOM;
}

/** The chunk type of a lowered stream. */
interface Form<Chunk> {
  /** Returns text that arrived as `chunk` and is unchanged. */
  same(text: string, chunk: Bytes): Chunk;
  made(text: string): Chunk;
}

const encoder = new TextEncoder();
const BYTES: Form<Bytes> = { same: (_, chunk) => chunk, made: (text) => encoder.encode(text) };
const TEXT: Form<string> = { same: (text) => text, made: (text) => text };

class SseLowering<Chunk> {
  readonly #form: Form<Chunk>;
  readonly #decoder = new TextDecoder();
  /** The start of an event as it arrived, joined once its end is here, because it may be many chunks long. */
  #parts: string[] = [];
  #tail = '';
  #whole = '';
  /** Whether a character has started that the next chunk completes. */
  #isWithin = false;
  #held = 0;

  constructor(form: Form<Chunk>) {
    this.#form = form;
  }

  /** The size of the incomplete event. */
  get held(): number {
    return this.#held;
  }

  made(text: string): Chunk {
    return this.#form.made(text);
  }

  /** Returns the whole events that a chunk completes, or undefined if it completes none. */
  take(chunk: Bytes): Chunk | undefined {
    const text = this.#decoder.decode(chunk, { stream: true });
    // The earlier text contains no end of an event, so only one that started in its last characters can be found.
    const end = endOfEvents(this.#tail + text) - this.#tail.length;
    const isCut = this.#isWithin;
    this.#isWithin = (chunk[chunk.length - 1] ?? 0) >= 0x80;
    if (this.#parts.length === 0 && end === text.length && !isCut && !this.#isWithin && !mayHaveTop(text)) {
      this.#whole = text;
      return this.#form.same(text, chunk);
    }
    const out = end > 0 ? this.#lower(text.slice(0, end)) : undefined;
    const rest = end > 0 ? text.slice(end) : text;
    this.#held = end > 0 ? Buffer.byteLength(rest) : this.#held + chunk.length;
    if (rest) this.#parts.push(rest);
    this.#tail = (this.#tail + rest).slice(1 - LONGEST_END);
    return out;
  }

  /** Returns the remainder when the stream ends. */
  end(): Chunk | undefined {
    const last = this.#decoder.decode();
    const out = this.#parts.length > 0 || last ? this.#lower(last) : undefined;
    // An event without an end does not count.
    this.#whole = '';
    return out;
  }

  /** Reports the last id in the events that were taken last, once. */
  tell({ read, skipped }: StreamWatch): void {
    const id = read && lastIdIn(this.#whole, skipped);
    this.#whole = '';
    if (id) read(id);
  }

  #lower(last: string): Chunk {
    this.#whole = this.#parts.length === 0 ? last : this.#parts.join('') + last;
    this.#parts = [];
    this.#tail = '';
    return this.#form.made(lowerEvents(this.#whole));
  }
}

function endOfEvents(text: string): number {
  const at = Math.max(text.lastIndexOf('\n\n'), text.lastIndexOf('\r\r'));
  const crlf = text.lastIndexOf('\r\n\r\n');
  return Math.max(at < 0 ? 0 : at + 2, crlf < 0 ? 0 : crlf + 4);
}

/** Returns the last event id. No line of JSON starts with `id:`, so searching from the end finds it, or nothing, quickly. */
function lastIdIn(events: string, skipped: StreamWatch['skipped']): string | undefined {
  for (let at = events.lastIndexOf('id:'); at >= 0; at = at > 0 ? events.lastIndexOf('id:', at - 1) : -1) {
    if (at > 0 && events[at - 1] !== '\n' && events[at - 1] !== '\r') continue;
    const id = /^ ?([^\r\n]*)/.exec(events.slice(at + 3, at + 5 + MAX_EVENT_ID))?.[1];
    // The standard ignores ids with NUL, and an id that does not fit into a header cannot be sent back either.
    if (!id || !/^[\x20-\x7e]+$/.test(id)) continue;
    if (id.length <= MAX_EVENT_ID) return id;
    skipped?.();
  }
  return undefined;
}

function lowerEvents(text: string): string {
  if (!mayHaveTop(text)) return text;
  let out = '';
  let from = 0;
  for (const blank of text.matchAll(BLANK_LINE)) {
    out += lowerEvent(text.slice(from, blank.index)) + blank[0];
    from = blank.index + blank[0].length;
  }
  return out + lowerEvent(text.slice(from));
}

function lowerEvent(event: string): string {
  if (!mayHaveTop(event)) return event;
  const lines = event.split(/\r\n|\n|\r/);
  const data = lines
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(line[5] === ' ' ? 6 : 5));
  const others = lines.filter((line) => !line.startsWith('data:'));
  return [...others, `data: ${lowerJson(data.join('\n'))}`].join('\n');
}

/** Lowers a JSON text. Text that is not JSON is left to the SDK, which reports it. */
function lowerJson(text: string): string {
  try {
    return lowerText(text);
  } catch {
    return text;
  }
}

/** Yields the data of each event that has any. */
export async function* sseData(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    const events = text.split(BLANK_LINE);
    text = events.pop() ?? '';
    for (const data of events.map(dataOf)) if (data !== '') yield data;
  }
  const data = dataOf(text);
  if (data !== '') yield data;
}

function dataOf(event: string): string {
  return event
    .split(/\r\n|\n|\r/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(line[5] === ' ' ? 6 : 5))
    .join('\n');
}
