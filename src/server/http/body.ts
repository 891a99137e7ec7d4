/** As the SDKs have it. */
export const MAX_BODY = 4 * 1024 * 1024;

/** True for a body that is JSON; any other is the SDK's to refuse. */
export function isJson(type: string | null | undefined): boolean {
  return /^\s*application\/json\s*(;|$)/i.test(type ?? '');
}

/** Reads a body as text; undefined where it is longer than `max` bytes. */
export async function readText(chunks: AsyncIterable<Uint8Array>, max: number): Promise<string | undefined> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.length;
    if (length > max) return undefined;
    parts.push(chunk);
  }
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
