import type { IncomingMessage } from 'node:http';

/** The default of both SDKs. */
export const MAX_BODY = 4 * 1024 * 1024;

/** True for a body that is JSON; any other is the SDK's to refuse. */
export function isJson(type: string | null | undefined): boolean {
  return /^\s*application\/json\s*(;|$)/i.test(type ?? '');
}

/**
 * Whether a request may be one of MCP's, by its headers alone: the body of any other is never read. Every revision asks
 * clients for this `accept` when they POST, and both SDKs refuse them without it.
 */
export function mayBeMcp(method: string, header: (name: string) => string | null | undefined): boolean {
  const sends = method === 'POST' && header('accept')?.includes('text/event-stream');
  return Boolean(sends || MCP_HEADERS.some((name) => header(name)));
}

const MCP_HEADERS = ['mcp-session-id', 'mcp-protocol-version', 'mcp-method', 'last-event-id'];

/**
 * Reads the body of a Node request, and puts it back: the stream still flows for whoever reads it next. Returns undefined
 * if the body is longer than `max` bytes; as many again are discarded, so that the client can read the answer, then the
 * connection is closed.
 */
export function peekNodeText(request: IncomingMessage, max: number): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let length = 0;
    const settle = (outcome: string | undefined | Error): void => {
      request.off('readable', onReadable).off('end', onEnd).off('error', settle).off('close', onClose);
      if (outcome instanceof Error) reject(outcome);
      else resolve(outcome);
    };
    const onReadable = (): void => {
      // Not one read more than there are bytes: reading at the end would end the stream.
      while (request.readableLength > 0 && length <= max) {
        const chunk = request.read() as Buffer;
        parts.push(chunk);
        length += chunk.length;
      }
      if (length > max) {
        settle(undefined);
        discard(request, max);
      }
      if (length > max || !request.complete) return;
      const whole = joined(parts);
      // In the same tick as the last read, so that 'end' is not emitted yet.
      if (whole.length > 0) request.unshift(whole);
      settle(whole.toString('utf8'));
    };
    const onEnd = (): void => settle(joined(parts).toString('utf8'));
    const onClose = (): void => settle(new Error('The request broke off.'));
    request.on('readable', onReadable).on('end', onEnd).on('error', settle).on('close', onClose);
  });
}

/** Reads up to `max` more bytes for nobody, then hangs up. */
function discard(request: IncomingMessage, max: number): void {
  let length = 0;
  request.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length > max) request.destroy();
  });
}

/** Puts another body in the place of the one that {@link peekNodeText} has put back. */
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

/** The same request with another body. */
export function withBody(request: Request, text: string): Request {
  const headers = new Headers(request.headers);
  headers.delete('content-length');
  // Frameworks hand on subclasses, and hang what they know, such as `auth`, on the object.
  const Kind = request instanceof Request ? (request.constructor as typeof Request) : Request;
  const { url, method, signal } = request;
  const fresh = new Kind(url, { method, headers, body: text, signal });
  for (const [name, value] of Object.entries(request)) Object.assign(fresh, { [name]: value });
  return fresh;
}

/** Reads a copy of a web-standard request, which itself stays readable; undefined, and canceled, if it is longer than `max` bytes. */
export async function peekWebText(request: Request, max: number): Promise<string | undefined> {
  const copy = request.clone();
  const announced = Number(request.headers.get('content-length') ?? Number.NaN);
  // No HTTP server hands over more than was announced; but what unpacks a body may leave the old length.
  if (announced <= max && !request.headers.has('content-encoding')) return copy.text();
  const reader = (copy.body as ReadableStream<Uint8Array>).getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    length += read.value.length;
    if (length > max) {
      // Nobody waits for this: a copy is canceled only together with its original.
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

/** What both SDKs say to a body that is too long. */
export function tooLarge(max: number): object {
  return { code: -32_000, message: `Payload Too Large: Request body must not exceed ${max} bytes` };
}
