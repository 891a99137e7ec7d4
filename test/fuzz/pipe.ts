import { PassThrough } from 'node:stream';
import { StdioServerTransport as StdioV1 } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StdioServerTransport as StdioV2, serveStdio } from '@modelcontextprotocol/server/stdio';
import { MAJORS } from '../server/majors.ts';
import { checkMessage, type Era } from './messages.ts';
import type { Json } from './mutate.ts';
import type { FuzzedServer } from './server.ts';

const [V1, V2] = MAJORS;
type Message = { [name: string]: Json };

/** The other end of a stdio server: bytes in, messages out. */
export interface Pipe {
  write(bytes: string | Buffer): void;
  /** The next message for which `is` holds. */
  next(is: (message: Message) => boolean): Promise<Message>;
  close(): Promise<void>;
}

/** A server on streams of its own, in this process: what would end a process of its own fails the test here. */
export async function openPipe(
  { valise, build }: FuzzedServer,
  era: Era,
  major: (typeof MAJORS)[number],
): Promise<Pipe> {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const stdin = valise.stdin(input);
  let close: () => Promise<void>;
  if (era === 'modern') {
    const handle = serveStdio(() => build(V2), { transport: new StdioV2(stdin, output) });
    close = () => handle.close();
  } else {
    const server = build(major);
    await server.connect(new (major === V1 ? StdioV1 : StdioV2)(stdin, output) as never);
    close = () => server.close();
  }
  const waiting = new Set<{
    is: (message: Message) => boolean;
    resolve: (message: Message) => void;
    reject: (error: unknown) => void;
  }>();
  let rest = '';
  output.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      try {
        const message = JSON.parse(line) as Message;
        checkMessage(message);
        for (const one of waiting) if (one.is(message) && waiting.delete(one)) one.resolve(message);
      } catch (error) {
        for (const one of waiting) one.reject(error);
      }
    }
  });
  return {
    write: (bytes) => void input.write(bytes),
    next: (is) => new Promise((resolve, reject) => waiting.add({ is, resolve, reject })),
    async close() {
      input.end();
      await close();
    },
  };
}

export async function ask(pipe: Pipe, message: Message): Promise<Message> {
  const answer = pipe.next(({ id, method }) => id === message['id'] || method === 'elicitation/create');
  pipe.write(`${JSON.stringify(message)}\n`);
  return answer;
}
