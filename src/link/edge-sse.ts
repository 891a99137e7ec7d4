import { lowerText, mayHaveTop } from './top.ts';

const BLANK_LINE = /\r\n\r\n|\n\n|\r\r/g;
const LONGEST_END = '\r\n\r\n'.length;
const MAX_ID = 8192;

/**
 * Lowers the messages in a stream of server-sent events; chunks that hold nothing to lower pass as they came. Tells the
 * id that the latest whole events had, once whoever reads the stream can have them.
 */
export function sseLowering(
  read?: (lastEventId: string) => void,
): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const encoder = new TextEncoder();
  // The beginning of an event as it came, joined once its end is here: it may be many chunks long.
  let parts: string[] = [];
  let tail = '';
  const take = (last: string): string => {
    const text = parts.length === 0 ? last : parts.join('') + last;
    parts = [];
    tail = '';
    return text;
  };
  const tell = (events: string): void => {
    const id = read && lastIdIn(events);
    if (id) read(id);
  };
  return new TransformStream({
    transform(chunk, controller) {
      const text = decoder.decode(chunk, { stream: true });
      // What came before holds no end of an event, so only one that began in its last characters is to be found.
      const end = endOfEvents(tail + text) - tail.length;
      if (parts.length === 0 && end === text.length && !mayHaveTop(text)) {
        controller.enqueue(chunk);
        tell(text);
        return;
      }
      if (end > 0) {
        const events = take(text.slice(0, end));
        controller.enqueue(encoder.encode(lowerEvents(events)));
        tell(events);
      }
      const rest = end > 0 ? text.slice(end) : text;
      if (rest) parts.push(rest);
      tail = (tail + rest).slice(1 - LONGEST_END);
    },
    flush(controller) {
      const rest = take(decoder.decode());
      if (rest) controller.enqueue(encoder.encode(lowerEvents(rest)));
    },
  });
}

function endOfEvents(text: string): number {
  const at = Math.max(text.lastIndexOf('\n\n'), text.lastIndexOf('\r\r'));
  const crlf = text.lastIndexOf('\r\n\r\n');
  return Math.max(at < 0 ? 0 : at + 2, crlf < 0 ? 0 : crlf + 4);
}

/** JSON holds no line that begins like this, so a look from the end finds it, or nothing, at once. */
function lastIdIn(events: string): string | undefined {
  for (let at = events.lastIndexOf('id:'); at >= 0; at = at > 0 ? events.lastIndexOf('id:', at - 1) : -1) {
    if (at > 0 && events[at - 1] !== '\n' && events[at - 1] !== '\r') continue;
    const id = /^ ?([^\r\n]*)/.exec(events.slice(at + 3, at + 3 + MAX_ID))?.[1];
    // The standard has ids with NUL ignored; what does not fit into a header cannot be sent back either.
    if (id && id.length < MAX_ID - 1 && /^[\x20-\x7e]+$/.test(id)) return id;
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
