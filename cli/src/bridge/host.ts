import { pipeline, type Readable, type Writable } from 'node:stream';
import { isObject, limitLines, MAX_MESSAGE, tooLargeRequest } from 'mcp-valise/internal';
import { isRequest, type Message } from 'mcp-valise/wire';

const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;

/** The host at the other end of standard input and output: one JSON-RPC message a line. */
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

  /** The host's messages, until it closes our input. What is not a message is answered as JSON-RPC says. */
  async *messages(): AsyncGenerator<Message> {
    // Whoever reads them hears of what goes wrong.
    const whole = pipeline(this.#input, limitLines({ maxBytes: MAX_MESSAGE }), () => {});
    for await (const lines of whole)
      for (const line of String(lines).split('\n')) yield* this.#read(line.trim());
  }

  /** The messages of a line: one, or those of a batch, which 2025-03-26 had. */
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

/** True for what is at least shaped as a request, a notification or a response; all else about it is the server's. */
function isMessage(value: unknown): value is Message {
  if (!isObject(value)) return false;
  if ('method' in value) return typeof value['method'] === 'string';
  return 'id' in value && ('result' in value || 'error' in value);
}
