import { fileURLToPath } from 'node:url';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, it } from 'vitest';
import { hostileTexts } from './answers.ts';
import { fuzz } from './run.ts';

const server = fileURLToPath(new URL('hostile-stdio.mjs', import.meta.url));

describe.each([
  { form: 'v1', Client: ClientV1 },
  { form: 'v2', Client: ClientV2 },
])('a $form client that gets hostile lines from a stdio server', ({ form, Client }) => {
  it('A client ends each call with a result or a typed error, and the connection stays usable', {
    timeout: 1_200_000,
  }, async () => {
    const valise = await openValise({ store: memoryStore() });
    const open = async (): Promise<ClientV2> => {
      const client = new Client({ name: 'host', version: '1.0.0' }, {
        capabilities: { elicitation: {} },
      } as never) as ClientV2;
      const answer = async () => ({ action: 'accept', content: { name: 'me' } }) as never;
      if (Client === ClientV1) (client as unknown as ClientV1).setRequestHandler(ElicitRequestSchema, answer);
      else client.setRequestHandler('elicitation/create', answer);
      client.onerror = () => {};
      await valise.connect(client, { command: process.execPath, args: [server], stderr: 'inherit' });
      return client;
    };
    const client = await open();
    const call = async (args: object, timeout: number) => {
      const bound = client.callTool.bind(client) as (...given: unknown[]) => Promise<unknown>;
      const options = { timeout };
      await bound(
        { name: 'work', arguments: args },
        ...(Client === ClientV1 ? [undefined, options] : [options]),
      );
    };
    const plan = {
      name: `client on stdio, ${form}`,
      short: 200,
      soak: 2000,
      atOnce: 30,
      reach: 1 / 3,
      reaching: 'got a result',
    };
    try {
      await fuzz(plan, async ({ random, input, count, reached }) => {
        const texts = hostileTexts(random);
        input({ form, texts });
        const error = await call({ texts }, 400).then(
          () => reached(),
          (error: unknown) => error,
        );
        if (
          error !== undefined &&
          (!(error instanceof Error) || /^(Type|Range|Reference|Syntax)Error$/.test(error.constructor.name))
        )
          throw error;
        count(error === undefined ? 'result' : (error as Error).constructor.name);
        await call({}, 20_000);
      });
    } finally {
      await client.close();
      await valise.close();
    }
  });
});
