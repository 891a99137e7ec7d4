import { messageOf } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { withHints } from '../../link/edge-fetch.ts';
import { takeTop } from '../../link/top.ts';
import { isResponse, type Message } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';

/**
 * Processes the HTTP response to an answer. It carries the rest of the call, up to its result or its next question with a
 * state; other server requests do not continue the call. Returns the reason if the call does not continue.
 */
export async function goOnWith(
  connection: Connection,
  call: Call | undefined,
  reply: Response,
): Promise<string | undefined> {
  let goesOn = false;
  let reason = 'the server ended it';
  try {
    for await (const message of messagesOf(reply)) {
      goesOn ||= isResponse(message) || takeTop(message).top?.state !== undefined;
      // An earlier process may have made the call under an id that belongs to another call here.
      const own = call && isResponse(message) ? { ...message, id: call.wireId } : message;
      // The message still belongs to the call, even if it is the next question.
      await withHints(call ? { origin: call } : {}, () => connection.arrive(own));
    }
  } catch (error) {
    reason = messageOf(error);
  }
  return goesOn ? undefined : `The connection broke off before the call was answered: ${reason}.`;
}

/** Yields the messages in the HTTP response to one of our responses. The edge has already adapted them for the SDK. */
async function* messagesOf(reply: Response): AsyncGenerator<Message> {
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

/** Yields the data of each event that has any. */
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
