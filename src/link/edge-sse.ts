import { lowerText, mayHaveTop } from './top.ts';

const BLANK_LINE = /\r\n\r\n|\n\n|\r\r/g;

/** Lowers the messages in a stream of server-sent events; chunks that hold nothing to lower pass as they came. */
export function sseLowering(): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const encoder = new TextEncoder();
  let carry = '';
  return new TransformStream({
    transform(chunk, controller) {
      const text = carry + decoder.decode(chunk, { stream: true });
      const end = endOfEvents(text);
      if (carry === '' && end === text.length && !mayHaveTop(text)) {
        controller.enqueue(chunk);
        return;
      }
      carry = text.slice(end);
      if (end > 0) controller.enqueue(encoder.encode(lowerEvents(text.slice(0, end))));
    },
    flush(controller) {
      const rest = carry + decoder.decode();
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
