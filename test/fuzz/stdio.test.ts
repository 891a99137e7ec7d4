import { describe, expect, it } from 'vitest';
import { MAJORS } from '../server/majors.ts';
import { hostile, type Loot, plunder, request } from './messages.ts';
import { ask, openPipe, type Pipe } from './pipe.ts';
import type { Random } from './random.ts';
import { fuzz } from './run.ts';
import { fuzzedServer, GENUINE } from './server.ts';

const [V1, V2] = MAJORS;

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
  it('A server continues to serve after each hostile line, and accepts no forgery', {
    timeout: 1_200_000,
  }, async () => {
    const server = fuzzedServer(mode);
    const sight = { user: 'nobody', handlers: 0 };
    let credited = 0;
    let current: { from: number; pipe: Pipe; loot: Loot } | undefined;
    const begin = async (from: number) => {
      await current?.pipe.close();
      const pipe = await openPipe(server, era, major);
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
