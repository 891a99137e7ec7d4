import { PassThrough } from 'node:stream';
import { StdioServerTransport as StdioV1 } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StdioServerTransport as StdioV2, serveStdio } from '@modelcontextprotocol/server/stdio';
import { describe, expect, it } from 'vitest';
import { MAJORS } from '../server/majors.ts';
import { checkMessage, type Era, hostile, type Loot, plunder, request } from './messages.ts';
import type { Json } from './mutate.ts';
import type { Random } from './random.ts';
import { fuzz } from './run.ts';
import { type FuzzedServer, fuzzedServer, GENUINE } from './server.ts';

const [V1, V2] = MAJORS;
type Message = { [name: string]: Json };

/** The other end of a stdio server: bytes in, messages out. */
interface Pipe {
  write(bytes: string | Buffer): void;
  /** The next message for which `is` holds. */
  next(is: (message: Message) => boolean): Promise<Message>;
  close(): Promise<void>;
}

/** A server on streams of its own, in this process: what would end a process of its own fails the test here. */
async function open(
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

async function ask(pipe: Pipe, message: Message): Promise<Message> {
  const answer = pipe.next(({ id, method }) => id === message['id'] || method === 'elicitation/create');
  pipe.write(`${JSON.stringify(message)}\n`);
  return answer;
}

/** The line, perhaps in pieces, in the other style, or among empty ones. */
function write(random: Random, pipe: Pipe, text: string): void {
  const bytes = Buffer.from(`${text}${random.chance(0.05) ? '\r\n' : '\n'}`);
  if (random.chance(0.05)) pipe.write('\n \n');
  const cut = random.chance(0.1) ? random.below(bytes.length) : bytes.length;
  pipe.write(bytes.subarray(0, cut));
  if (cut < bytes.length) pipe.write(bytes.subarray(cut));
}

describe.each([
  { form: 'v1', era: 'legacy', major: V1, mode: 'sealed' },
  { form: 'v2', era: 'legacy', major: V2, mode: 'stored' },
  { form: 'v2 on 2026-07-28', era: 'modern', major: V2, mode: 'sealed' },
] as const)('a $form stdio server that is sent hostile lines', ({ form, era, major, mode }) => {
  it('goes on serving after each of them, and takes no forgery', { timeout: 1_200_000 }, async () => {
    const server = fuzzedServer(mode);
    const sight = { user: 'nobody', handlers: 0 };
    let credited = 0;
    let current: { from: number; pipe: Pipe; loot: Loot } | undefined;
    const begin = async (from: number) => {
      await current?.pipe.close();
      const pipe = await open(server, era, major);
      const loot = await plunder(era, (message) => ask(pipe, message));
      credited = sight.handlers;
      current = { from, pipe, loot };
      return current;
    };
    const plan = { name: `stdio, ${form}`, short: 1500, soak: 17_000, reach: 1 / 3 };
    try {
      await server.sight.run(sight, () =>
        fuzz(plan, async ({ at, random, batch, input, count, reached }) => {
          const { at: from } = batch(100);
          const { pipe, loot } = current?.from === from ? current : await begin(from);
          const { text } = hostile(random, loot, at + 10);
          input({ form, text });
          write(random, pipe, text);
          const id = `alive-${at}`;
          const alive = request({ era, state: {} }, 0, era === 'modern' ? 'tools/list' : 'ping');
          const { error } = await ask(pipe, { ...alive, id });
          if (error) throw new Error(`It no longer answers: ${JSON.stringify(error)}`);
          count('alive');
          // A handler may begin after the next line has been answered; each of them counts for one line.
          if (sight.handlers > credited) {
            credited++;
            reached();
          }
          const [forgery] = server.forgeries;
          if (forgery !== undefined) throw new Error(`A forgery was taken for genuine: ${forgery}`);
        }),
      );
      expect([...server.genuine].sort()).toEqual(GENUINE);
    } finally {
      await (current as { pipe: Pipe } | undefined)?.pipe.close();
      await server.valise.close();
    }
  });
});
