import { isObject } from '../../json.ts';
import type { Message } from '../../wire/index.ts';

/** The messages in the HTTP answer to a response of ours, one by one; the edge has made them fit for the SDK. */
export async function* messagesOf(reply: Response): AsyncGenerator<Message> {
  const type = reply.headers.get('content-type') ?? '';
  if (type.startsWith('application/json')) {
    const body: unknown = await reply.json();
    for (const message of Array.isArray(body) ? body : [body])
      if (isObject(message)) yield message as unknown as Message;
    return;
  }
  if (!type.startsWith('text/event-stream') || !reply.body) {
    await reply.body?.cancel();
    return;
  }
  for await (const data of eventsIn(reply.body)) {
    const message: unknown = JSON.parse(data);
    if (isObject(message)) yield message as unknown as Message;
  }
}

/** The data of each event that has some. */
async function* eventsIn(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    const events = text.split(/\r\n\r\n|\n\n|\r\r/);
    text = events.pop() ?? '';
    for (const event of events) {
      const data = dataOf(event);
      if (data !== '') yield data;
    }
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
