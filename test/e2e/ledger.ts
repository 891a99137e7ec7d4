/**
 * A server whose effects leave a line in a file when they start and when they end, so that a test can tell afterwards
 * what happened to them. Served as the examples are.
 */
import { appendFileSync } from 'node:fs';
import { createValise, type Flow } from 'mcp-valise/server';
import { z } from 'zod';
import { type Example, serveIfMain } from '../../examples/serve.ts';

type Effect = Parameters<Parameters<Flow['once']>[1]>[0];

const yes = {
  message: 'Go on?',
  schema: { type: 'object', properties: { go: { type: 'boolean' } }, required: ['go'] },
} as const;

export const example: Example = {
  name: 'ledger',
  options: { log: { type: 'string' } },
  build({ McpServer, options, flags }) {
    const valise = createValise({ name: 'ledger', ...options });
    const log = (...words: unknown[]) => appendFileSync(String(flags['log']), `${words.join(' ')}\n`);

    const effect = async ({ idempotencyKey, attempt }: Effect): Promise<string> => {
      log('start', idempotencyKey, attempt);
      await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 40));
      log('end', idempotencyKey, attempt);
      return `${process.pid}.${attempt}.${Math.random()}`;
    };
    const order = async (n: number, cutOff: 'fail' | 'retry', flow: Flow): Promise<string> => {
      await flow.ask('charge?', yes);
      const charge = await flow.once('charge', effect, { cutOff });
      log('got', `${flow.id}.charge`, charge);
      await flow.ask('ship?', yes);
      const ship = await flow.once('ship', effect, { cutOff });
      log('got', `${flow.id}.ship`, ship);
      return `${n} ${charge} ${ship}`;
    };

    const server = () => {
      const ledger = valise.install(new McpServer({ name: 'ledger', version: '1.0.0' }));
      ledger.registerTool(
        'order',
        { inputSchema: z.object({ n: z.number(), cutOff: z.enum(['fail', 'retry']) }) },
        valise.flow(async ({ n, cutOff }, flow) => ({
          content: [{ type: 'text', text: await order(n, cutOff, flow) }],
        })),
      );
      return ledger;
    };
    return { valise, server };
  },
};

await serveIfMain(import.meta.url, example);
