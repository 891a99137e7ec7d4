import { StringDecoder } from 'node:string_decoder';

/** Reads the messages in a body while it streams through. */
export interface MessageReader {
  readonly take: (chunk: Buffer) => void;
  readonly end: () => void;
}

const BLANK_LINE = /\r\n\r\n|\n\n|\r\r/;

/** Finds the JSON messages in a body: one message or a batch in JSON, or one per event of an event stream. */
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
    // This is not a message; the body is passed on anyway.
    return;
  }
  for (const message of Array.isArray(value) ? value : [value]) see(message);
}
