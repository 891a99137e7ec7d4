import { MAX_MESSAGE, tooLargeError } from './limit.ts';
import { lowerText, mayHaveTop } from './top.ts';

const BLANK_LINE = /\r\n\r\n|\n\n|\r\r/g;
const LONGEST_END = '\r\n\r\n'.length;
/** The longest id of an event that is kept and sent back: it travels in a header. */
export const MAX_EVENT_ID = 4096;

type Bytes = Uint8Array<ArrayBuffer>;

/** Follows a stream of server-sent events. */
export interface StreamWatch {
  /** Hears the id that the latest whole events had, once whoever reads the stream can have them. */
  readonly read?: ((lastEventId: string) => void) | undefined;
  /** An event has an id that is too long to be sent back in a header, and counts as one without. */
  readonly skipped?: (() => void) | undefined;
  /** It has ended, has broken off, or nobody reads on. */
  readonly ended?: (() => void) | undefined;
  /** How large one event may be. */
  readonly maxBytes?: number | undefined;
  /**
   * An event is larger, or has no end. Returns the text to put in its place, as the last event of the stream, or an error
   * for the stream to end with.
   */
  readonly exceeded?: (() => string | Error) | undefined;
}

/**
 * The stream with its messages lowered; chunks that hold nothing to lower pass as they came. It reads as it is read,
 * which costs a good part less than a `TransformStream` that is piped through.
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
  // Both SDKs have the bytes decoded first of all. Here they are text already: one stream less, which is some percent of a call.
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

/** What a lowered stream is made of. */
interface Form<Chunk> {
  /** Text that came as `chunk`, and stays as it is. */
  same(text: string, chunk: Bytes): Chunk;
  made(text: string): Chunk;
}

const encoder = new TextEncoder();
const BYTES: Form<Bytes> = { same: (_, chunk) => chunk, made: (text) => encoder.encode(text) };
const TEXT: Form<string> = { same: (text) => text, made: (text) => text };

class SseLowering<Chunk> {
  readonly #form: Form<Chunk>;
  readonly #decoder = new TextDecoder();
  /** The beginning of an event as it came, joined once its end is here: it may be many chunks long. */
  #parts: string[] = [];
  #tail = '';
  #whole = '';
  /** True where a character has begun that the next chunk ends. */
  #isWithin = false;
  #held = 0;

  constructor(form: Form<Chunk>) {
    this.#form = form;
  }

  /** The size of the event that has begun and not ended. */
  get held(): number {
    return this.#held;
  }

  made(text: string): Chunk {
    return this.#form.made(text);
  }

  /** The whole events that a chunk completes; undefined where it completes none. */
  take(chunk: Bytes): Chunk | undefined {
    const text = this.#decoder.decode(chunk, { stream: true });
    // What came before holds no end of an event, so only one that began in its last characters is to be found.
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

  /** What is left when the stream ends. */
  end(): Chunk | undefined {
    const last = this.#decoder.decode();
    const out = this.#parts.length > 0 || last ? this.#lower(last) : undefined;
    // An event without its end is none.
    this.#whole = '';
    return out;
  }

  /** Tells the last id in the events that were taken last, once. */
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

/** JSON holds no line that begins like this, so a look from the end finds it, or nothing, at once. */
function lastIdIn(events: string, skipped: StreamWatch['skipped']): string | undefined {
  for (let at = events.lastIndexOf('id:'); at >= 0; at = at > 0 ? events.lastIndexOf('id:', at - 1) : -1) {
    if (at > 0 && events[at - 1] !== '\n' && events[at - 1] !== '\r') continue;
    const id = /^ ?([^\r\n]*)/.exec(events.slice(at + 3, at + 5 + MAX_EVENT_ID))?.[1];
    // The standard has ids with NUL ignored; what does not fit into a header cannot be sent back either.
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

/** Text that is not JSON is left to the SDK, which reports it. */
function lowerJson(text: string): string {
  try {
    return lowerText(text);
  } catch {
    return text;
  }
}
