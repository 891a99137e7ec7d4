import { pipeline, type Readable, type Writable } from 'node:stream';
import {
  isObject,
  isRequest,
  limitLines,
  MAX_MESSAGE,
  type Message,
  tooLargeRequest,
} from 'mcp-valise/internal';

const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;

/** The host at the other end of standard input and output: one JSON-RPC message per line. */
export class Host {
  readonly #input: Readable;
  readonly #output: Writable;

  constructor(input: Readable, output: Writable) {
    this.#input = input;
    this.#output = output;
  }

  send(message: Message): void {
    this.#output.write(`${JSON.stringify(message)}\n`);
  }

  /** Yields the host's messages until it closes standard input. Answers invalid messages as JSON-RPC requires. */
  async *messages(): AsyncGenerator<Message> {
    // The reader of the stream receives its errors.
    const whole = pipeline(this.#input, limitLines({ maxBytes: MAX_MESSAGE }), () => {});
    for await (const lines of whole)
      for (const line of String(lines).split('\n')) yield* this.#read(line.trim());
  }

  /** Yields the messages of a line: one, or those of a batch, which 2025-03-26 allowed. */
  *#read(line: string): Generator<Message> {
    if (line === '') return;
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      this.#refuse(undefined, PARSE_ERROR, 'Parse error: not JSON');
      return;
    }
    const all: readonly unknown[] = Array.isArray(value) && value.length > 0 ? value : [value];
    for (const one of all) {
      const tooLarge = isRequest(one) ? tooLargeRequest(one) : undefined;
      if (tooLarge) this.send({ jsonrpc: '2.0', id: (one as { id: string }).id, error: tooLarge });
      else if (isMessage(one)) yield one;
      else this.#refuse(one, INVALID_REQUEST, 'Invalid request: not a JSON-RPC message');
    }
  }

  #refuse(value: unknown, code: number, message: string): void {
    const id = isObject(value) ? value['id'] : undefined;
    const isId = typeof id === 'string' || typeof id === 'number';
    this.send({ jsonrpc: '2.0', id: isId ? id : null, error: { code, message } });
  }
}

/** Whether the value has the shape of a request, a notification or a response. The server validates everything else. */
function isMessage(value: unknown): value is Message {
  if (!isObject(value)) return false;
  if ('method' in value) return typeof value['method'] === 'string';
  return 'id' in value && ('result' in value || 'error' in value);
}
