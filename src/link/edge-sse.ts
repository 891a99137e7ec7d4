import { lowerText, mayHaveTop } from './top.ts';

const BLANK_LINE = /\r\n\r\n|\n\n|\r\r/g;
const LONGEST_END = '\r\n\r\n'.length;

/** Lowers the messages in a stream of server-sent events; chunks that hold nothing to lower pass as they came. */
export function sseLowering(): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
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
  return new TransformStream({
    transform(chunk, controller) {
      const text = decoder.decode(chunk, { stream: true });
      // What came before holds no end of an event, so only one that began in its last characters is to be found.
      const end = endOfEvents(tail + text) - tail.length;
      if (parts.length === 0 && end === text.length && !mayHaveTop(text)) {
        controller.enqueue(chunk);
        return;
      }
      if (end > 0) controller.enqueue(encoder.encode(lowerEvents(take(text.slice(0, end)))));
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
