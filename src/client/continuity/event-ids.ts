/** Tells the ids of the events in a stream of server-sent events, which passes as it came. */
export function watchEventIds(
  seen: (id: string) => void,
): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  const decoder = new TextDecoder();
  let line = '';
  let id: string | undefined;
  return new TransformStream({
    transform(chunk, controller) {
      // An event counts once it is whole, and once whoever reads the stream can have it.
      controller.enqueue(chunk);
      const lines = (line + decoder.decode(chunk, { stream: true })).split('\n');
      line = (lines.pop() as string).slice(0, MAX_LINE);
      for (const whole of lines) {
        const text = whole.endsWith('\r') ? whole.slice(0, -1) : whole;
        if (text.startsWith('id:')) id = text.slice(text[3] === ' ' ? 4 : 3);
        else if (text === '' && id !== undefined) {
          // The standard has ids with NUL ignored; what does not fit into a header cannot be sent back either.
          if (isHeaderValue(id)) seen(id);
          id = undefined;
        }
      }
    },
  });
}

/** The start of a line says what it is, and no id is as long as this. */
const MAX_LINE = 16 * 1024;

function isHeaderValue(id: string): boolean {
  return id !== '' && id.length <= 8192 && /^[\x20-\x7e]+$/.test(id);
}
