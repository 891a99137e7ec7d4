import { randomBytes } from 'node:crypto';
import { ValiseError } from '../errors.ts';

/** PostgreSQL limits a notification to less than 8,000 bytes. The remainder is for the header of a part. */
const PART_BYTES = 7900;
/** The maximum number of parts per message, some 25 MB, so that incomplete messages cannot fill the memory. */
const MAX_PARTS = 10_000;

/** Splits a text into parts that each fit into one notification: `=text`, or `+id index count text` if there are several. */
export function split(text: string): string[] {
  if (text.length < PART_BYTES && Buffer.byteLength(text) < PART_BYTES) return [`=${text}`];
  const ascii = Buffer.byteLength(text) === text.length;
  // A UTF-16 code unit takes at most three bytes.
  const size = Math.floor((PART_BYTES - 64) / (ascii ? 1 : 3));
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + size, text.length);
    // Do not split a surrogate pair.
    if (isHighSurrogate(text.charCodeAt(end - 1)) && end < text.length) end--;
    pieces.push(text.slice(at, end));
    at = end;
  }
  if (pieces.length > MAX_PARTS) {
    throw new ValiseError(
      'store-invalid',
      `A message of ${text.length} characters is too long for PostgreSQL's bus.`,
      {
        next: 'Put what is large into a store and publish its key.',
      },
    );
  }
  const id = randomBytes(9).toString('base64url');
  return pieces.map((piece, index) => `+${id} ${index} ${pieces.length} ${piece}`);
}

const HEAD = /^\+([\w-]{12}) (\d{1,5}) (\d{1,5}) /;

/** Reassembles the parts. The parts of one message arrive consecutively on their channel. */
export class Assembly {
  readonly #open = new Map<
    string,
    { readonly id: string; readonly count: number; readonly pieces: string[] }
  >();
  readonly #hear: (channel: string, text: string) => void;

  constructor(hear: (channel: string, text: string) => void) {
    this.#hear = hear;
  }

  add(channel: string, payload: string): void {
    if (payload.startsWith('=')) {
      this.#hear(channel, payload.slice(1));
      return;
    }
    const head = HEAD.exec(payload);
    if (!head) return;
    const [start, id, index, count] = head as unknown as [string, string, string, string];
    let message = this.#open.get(channel);
    if (Number(index) === 0 && Number(count) <= MAX_PARTS) {
      this.#open.set(channel, (message = { id, count: Number(count), pieces: [] }));
    }
    if (message?.id !== id || message.pieces.length !== Number(index)) return;
    message.pieces.push(payload.slice(start.length));
    if (message.pieces.length < message.count) return;
    this.#open.delete(channel);
    this.#hear(channel, message.pieces.join(''));
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}
