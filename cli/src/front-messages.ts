import { StringDecoder } from 'node:string_decoder';

/** Reads the messages in a body as it goes by. */
export interface MessageReader {
  readonly take: (chunk: Buffer) => void;
  readonly end: () => void;
}

const BLANK_LINE = /\r\n\r\n|\n\n|\r\r/;

/** Finds the JSON messages in a body: one or a batch in JSON, or one in each event of a stream. */
export function messageReader(type: string | undefined, see: (message: unknown) => void): MessageReader {
  const decoder = new StringDecoder('utf8');
  const isStream = type?.startsWith('text/event-stream') === true;
  let text = '';
  const takeEvents = (): void => {
    const events = text.split(BLANK_LINE);
    text = events.pop() ?? '';
    for (const event of events) readJson(dataOf(event), see);
  };
  return {
    take(chunk) {
      text += decoder.write(chunk);
      if (isStream) takeEvents();
    },
    end() {
      text += decoder.end();
      readJson(isStream ? dataOf(text) : text, see);
    },
  };
}

function dataOf(event: string): string {
  return event
    .split(/\r\n|\n|\r/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length).replace(/^ /, ''))
    .join('\n');
}

function readJson(text: string, see: (message: unknown) => void): void {
  if (text === '') return;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Whatever it is, it is no message; it has gone by all the same.
    return;
  }
  for (const message of Array.isArray(value) ? value : [value]) see(message);
}
