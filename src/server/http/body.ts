import type { IncomingMessage } from 'node:http';

/** The default maximum body size of both SDKs, in bytes. */
export const MAX_BODY = 4 * 1024 * 1024;

/** Whether a body is JSON. The SDK refuses any other. */
export function isJson(type: string | null | undefined): boolean {
  return /^\s*application\/json\s*(;|$)/i.test(type ?? '');
}

/** Reads the headers of a request. */
export interface HeaderReader {
  get(name: string): string | null | undefined;
}

/**
 * Whether a request may be MCP, judged by its headers alone. The body of any other request is never read.
 *
 * Every revision requires this `accept` from clients that POST, and both SDKs refuse requests without it.
 */
export function mayBeMcp(method: string, headers: HeaderReader): boolean {
  if (method === 'POST' && headers.get('accept')?.includes('text/event-stream')) return true;
  return MCP_HEADERS.some((name) => headers.get(name));
}

const MCP_HEADERS = ['mcp-session-id', 'mcp-protocol-version', 'mcp-method', 'last-event-id'];

/**
 * Reads the body of a Node request and puts it back, so that the stream can be read again.
 *
 * Returns undefined if the body is longer than `max` bytes. As many bytes again are discarded, so that the client can read the
 * response. Then the connection is closed.
 */
export function peekNodeText(request: IncomingMessage, max: number): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let length = 0;
    const finish = (outcome: string | undefined | Error): void => {
      request.off('readable', onReadable).off('end', onEnd).off('error', finish).off('close', onClose);
      if (outcome instanceof Error) reject(outcome);
      else resolve(outcome);
    };
    const onReadable = (): void => {
      // Read no more than there are bytes, because a read at the end would end the stream.
      while (request.readableLength > 0 && length <= max) {
        const chunk = request.read() as Buffer;
        parts.push(chunk);
        length += chunk.length;
      }
      if (length > max) {
        finish(undefined);
        discard(request, max);
      }
      if (length > max || !request.complete) return;
      const whole = joined(parts);
      // This happens in the same tick as the last read, before 'end' is emitted.
      if (whole.length > 0) request.unshift(whole);
      finish(whole.toString('utf8'));
    };
    const onEnd = (): void => finish(joined(parts).toString('utf8'));
    const onClose = (): void => finish(new Error('The request broke off.'));
    request.on('readable', onReadable).on('end', onEnd).on('error', finish).on('close', onClose);
  });
}

/** Discards up to `max` more bytes, then closes the connection. */
function discard(request: IncomingMessage, max: number): void {
  let length = 0;
  request.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length > max) request.destroy();
  });
}

/** Replaces the body that {@link peekNodeText} has put back. */
export function replaceNodeBody(request: IncomingMessage, text: string): void {
  const body = Buffer.from(text);
  const length = String(body.length);
  request.headers['content-length'] = length;
  request.rawHeaders.forEach((name, at, all) => {
    if (at % 2 === 0 && name.toLowerCase() === 'content-length') all[at + 1] = length;
  });
  if (request.readableEnded) return;
  request.read();
  request.unshift(body);
}

/** Returns the same request with another body. */
export function withBody(request: Request, text: string): Request {
  const headers = new Headers(request.headers);
  headers.delete('content-length');
  // Frameworks pass subclasses, and attach what they know, such as `auth`, to the object.
  const Kind = request instanceof Request ? (request.constructor as typeof Request) : Request;
  const { url, method, signal } = request;
  const fresh = new Kind(url, { method, headers, body: text, signal });
  for (const [name, value] of Object.entries(request)) Object.assign(fresh, { [name]: value });
  return fresh;
}

/**
 * Reads a copy of a web-standard request, which itself stays readable.
 *
 * Returns undefined and cancels both if the body is longer than `max` bytes.
 */
export async function peekWebText(request: Request, max: number): Promise<string | undefined> {
  const copy = request.clone();
  const announced = Number(request.headers.get('content-length') ?? Number.NaN);
  // No HTTP server delivers more than was announced, but code that decompresses a body may keep the old length.
  if (announced <= max && !request.headers.has('content-encoding')) return copy.text();
  const reader = (copy.body as ReadableStream<Uint8Array>).getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    length += read.value.length;
    if (length > max) {
      // This is not awaited, since a copy is canceled only together with its original.
      void reader.cancel().catch(() => {});
      void request.body?.cancel().catch(() => {});
      return undefined;
    }
    parts.push(read.value);
  }
  return joined(parts).toString('utf8');
}

function joined(parts: readonly Uint8Array[]): Buffer {
  const [only] = parts;
  return parts.length === 1 && only
    ? Buffer.from(only.buffer, only.byteOffset, only.length)
    : Buffer.concat(parts);
}

/** Returns the error of both SDKs for a body that is too long. */
export function tooLarge(max: number): object {
  return { code: -32_000, message: `Payload Too Large: Request body must not exceed ${max} bytes` };
}

/**
 * Returns a URL as browsers reach it, without its query.
 *
 * A proxy that ends TLS says so in a header. A client that forges the header only gets a link that does not work.
 */
export function publicUrl(url: string, forwarded: string | null | undefined): string {
  const { protocol, host, pathname } = new URL(url);
  const isSecure = protocol === 'https:' || forwarded?.split(',', 1)[0]?.trim() === 'https';
  return `${isSecure ? 'https:' : 'http:'}//${host}${pathname}`;
}
