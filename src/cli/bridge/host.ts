import type { Readable, Writable } from 'node:stream';
import { isObject } from '../../json.ts';
import type { Message } from '../../wire/index.ts';

const MAX_LINE = 64 * 1024 * 1024;

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
      for (const line of lines) {
        const message = this.#read(line.trim());
        if (message) yield message;
      }
    }
  }

  #read(line: string): Message | undefined {
    if (line === '') return undefined;
    try {
      const value: unknown = JSON.parse(line);
      if (isObject(value)) return value as unknown as Message;
    } catch {
      // Answered below.
    }
    this.send({
      jsonrpc: '2.0',
      id: null,
      error: { code: -32700, message: 'Parse error: not a JSON-RPC message' },
    });
    return undefined;
  }
}
