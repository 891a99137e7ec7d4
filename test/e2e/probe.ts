/**
 * A server that does to its state what a test tells it, and shows every request as it came. Served as the examples are.
 */
import { completable as completableV1 } from '@modelcontextprotocol/sdk/server/completable.js';
import { completable as completableV2 } from '@modelcontextprotocol/server';
import { createValise, type Json } from 'mcp-valise/server';
import { z } from 'zod';
import { type Example, serveIfMain } from '../../examples/serve.ts';
import type { TransportLike } from '../../src/core/instrument.ts';
import { instrument } from '../../src/core/instrument.ts';
import { isRequest, type Request, readState } from '../../src/wire/index.ts';

const plain = true;

export const example: Example = {
  name: 'probe',
  build({ sdk, McpServer, options }) {
    const valise = createValise({ name: 'probe', ...options });
    const seen: Request[] = [];

    // Each pattern of a name has its settings, so that tests may choose their own names.
    const declare = (name: string) => {
      const [kind] = name.split(':');
      if (kind === 'brief') valise.jar.key(name, { plain, maxAge: 60 });
      else if (kind === 'tools') valise.jar.key(name, { plain, methodScope: 'tools' });
      else if (kind === 'show') valise.jar.key(name, { plain, methodScope: 'tools/call/show' });
      else if (kind === 'greet') valise.jar.key(name, { plain, methodScope: 'prompts/get/greet' });
      else if (kind === 'complete')
        valise.jar.key(name, { plain, methodScope: 'completion/complete/ref/prompt/greet' });
      else if (kind === 'wide') valise.jar.key(name, { plain, serverScope: 'example.com' });
      else valise.jar.key(name, { plain: kind !== 'sealed' });
    };
    const text = (value: unknown) => ({ content: [{ type: 'text' as const, text: JSON.stringify(value) }] });

    const server = () => {
      const probe = new McpServer({ name: 'probe', version: '1.0.0' });
      const connect = probe.connect.bind(probe);
      // Beneath Valise, so that it sees what is on the wire.
      probe.connect = async (transport) => {
        instrument(transport as TransportLike, seen, {
          inbound: (message) => {
            if (isRequest(message)) seen.push(message);
            return message;
          },
        });
        await connect(transport);
      };
      valise.install(probe);

      const Scope = z.enum(['session', 'server']);
      probe.registerTool(
        'change',
        {
          inputSchema: z.object({
            scope: Scope,
            set: z.record(z.string(), z.unknown()).optional(),
            remove: z.array(z.string()).optional(),
          }),
        },
        async ({ scope, set = {}, remove = [] }) => {
          const state = valise.jar[scope];
          for (const [name, value] of Object.entries(set)) {
            declare(name);
            state.set(name, value as Json);
          }
          for (const name of remove) state.delete(name);
          return text('changed');
        },
      );
      probe.registerTool('show', { inputSchema: z.object({ scope: Scope }) }, async ({ scope }) => {
        const names = Object.keys(readState(seen.at(-1)?.params?._meta)[scope] ?? {});
        names.forEach(declare);
        const state = valise.jar[scope];
        return text(Object.fromEntries(state.keys().map((name) => [name, state.get(name)])));
      });
      // What other servers might send: any `_meta` at all.
      probe.registerTool(
        'answer',
        { inputSchema: z.object({ meta: z.record(z.string(), z.unknown()) }) },
        async ({ meta }) => ({
          ...text('answered'),
          _meta: meta,
        }),
      );
      probe.registerTool('seen', { inputSchema: z.object({}) }, async () => text(seen.splice(0)));
      probe.registerPrompt('greet', { argsSchema: greetArguments(sdk) }, async () => ({
        messages: [{ role: 'user', content: { type: 'text', text: 'Hello' } }],
      }));
      return probe;
    };
    return { valise, server };
  },
};

/** The majors take arguments in different forms: a shape, or a schema. */
function greetArguments(sdk: 'v1' | 'v2') {
  const complete = () => ['Ann'];
  if (sdk === 'v1') return { name: completableV1(z.string(), complete) } as never;
  return z.object({ name: completableV2(z.string(), complete) });
}

await serveIfMain(import.meta.url, example);
