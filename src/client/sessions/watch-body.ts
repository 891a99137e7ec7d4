/**
 * Calls `ended` when an event stream ends or breaks. Returns a function that breaks the stream. The reader of the response
 * still reads the events as before. A response that is not an event stream is left unchanged.
 */
export function watchBody(response: Response, ended: () => void): () => void {
  const { body } = response;
  if (!body || !response.headers.get('content-type')?.startsWith('text/event-stream')) return () => {};
  const reader = body.getReader();
  const watched = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          controller.close();
          ended();
        } else controller.enqueue(value as Uint8Array<ArrayBuffer>);
      } catch (error) {
        controller.error(error);
        ended();
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
  Object.defineProperty(response, 'body', { configurable: true, get: () => watched });
  return () => void reader.cancel().catch(() => undefined);
}
