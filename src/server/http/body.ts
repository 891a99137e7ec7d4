import type { IncomingMessage } from 'node:http';

/** The default of both SDKs. */
export const MAX_BODY = 4 * 1024 * 1024;

/** True for a body that is JSON; any other is the SDK's to refuse. */
export function isJson(type: string | null | undefined): boolean {
  return /^\s*application\/json\s*(;|$)/i.test(type ?? '');
}

/**
 * Reads the body of a request of Node's as text. Returns undefined if it is longer than `max` bytes; as many again are
 * thrown away, so that the client can read the answer, then the connection is closed.
 */
export function readNodeText(request: IncomingMessage, max: number): Promise<string | undefined> {
  // By its events, which cost a call much less than iterating over them does.
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let length = 0;
    request.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length <= max) parts.push(chunk);
      else if (length > 2 * max) request.destroy();
      else {
        parts.length = 0;
        resolve(undefined);
      }
    });
    request.on('end', () => resolve(textOf(parts)));
    request.on('error', reject);
    request.on('close', () => {
      if (!request.complete) reject(new Error('The request broke off.'));
    });
  });
}

/** As {@link readNodeText}, for a web-standard request. */
export async function readWebText(request: Request, max: number): Promise<string | undefined> {
  const announced = Number(request.headers.get('content-length') ?? Number.NaN);
  // No HTTP server hands over more than was announced; but what unpacks a body may leave the old length.
  if (announced <= max && !request.headers.has('content-encoding')) return request.text();
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
    length += chunk.length;
    if (length > max) return undefined;
    parts.push(chunk);
  }
  return textOf(parts);
}

function textOf(parts: readonly Uint8Array[]): string {
  const [only] = parts;
  const whole =
    parts.length === 1 && only
      ? Buffer.from(only.buffer, only.byteOffset, only.length)
      : Buffer.concat(parts);
  return whole.toString('utf8');
}

/** What both SDKs say to a body that is too long. */
export function tooLarge(max: number): object {
  return { code: -32_000, message: `Payload Too Large: Request body must not exceed ${max} bytes` };
}
