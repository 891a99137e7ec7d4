import type { Readable, Writable } from 'node:stream';
import { isObject } from '../../json.ts';
import type { Message } from '../../wire/index.ts';

const MAX_LINE = 64 * 1024 * 1024;
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
    let rest = '';
    this.#input.setEncoding('utf8');
    for await (const chunk of this.#input) {
      const lines = (rest + String(chunk)).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > MAX_LINE) rest = '';
      for (const line of lines) yield* this.#read(line.trim());
    }
    yield* this.#read(rest.trim());
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
    for (const one of all)
      if (isMessage(one)) yield one;
      else this.#refuse(one, INVALID_REQUEST, 'Invalid request: not a JSON-RPC message');
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
