/** A server whose tools ask for a name in the middle of a call, in a session or without one. */
import { createValise } from 'mcp-valise/server';
import { type Example, serveIfMain } from '../../examples/serve.ts';
import { httpV2 } from '../../examples/serve-http.ts';

export const example: Example = {
  name: 'greeter',
  options: { 'one-user': { type: 'boolean' }, 'no-edge': { type: 'boolean' } },
  async build({ McpServer, options, flags }) {
    const principal = flags['one-user'] ? () => ({ subject: 'ada' }) : options.principal;
    const valise = createValise({ name: 'greeter', ...options, principal, sessions: {} });
    valise.sessions.require('greet_gated');
    const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });
    const greet = valise.flow(async (flow) => {
      const { name } = await flow.ask('name', {
        message: 'Who are you?',
        schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      });
      const session = valise.session();
      const count = (session?.get<number>('count') ?? 0) + 1;
      session?.set('count', count);
      return text(`Hello ${name} of ${session?.id ?? 'nowhere'}, ${count}.`);
    });
    const unlock = valise.flow(async (flow) => {
      const { secret } = await flow.ask('secret', {
        message: 'What is the secret?',
        schema: {
          type: 'object',
          properties: { secret: { type: 'string', writeOnly: true, minLength: 8 } as never },
          required: ['secret'],
        },
      });
      return text(`It has ${String(secret).length} letters.`);
    });
    const introduce = valise.flow(async (flow) => {
      const one = async (key: string): Promise<unknown> => {
        const properties = { [key]: { type: 'string' }, [`${key} of birth`]: { type: 'string' } } as const;
        const schema = { type: 'object', properties, required: [key, `${key} of birth`] } as const;
        const said = await flow.ask(key, { message: `What is your ${key}?`, schema });
        return Object.values(said).join('/');
      };
      return text(`You are ${(await Promise.all([one('name'), one('place')])).join(' of ')}.`);
    });
    const server = () => {
      const made = valise.install(new McpServer({ name: 'greeter', version: '1.0.0' }));
      made.registerTool('greet', {}, greet);
      made.registerTool('greet_gated', {}, greet);
      const annotations = { resourceAllocation: true } as object;
      made.registerTool('greet_costly', { annotations }, greet);
      made.registerTool('unlock', {}, unlock);
      made.registerTool('introduce', {}, introduce);
      made.registerTool('count', {}, async () => text(String(valise.session()?.get('count'))));
      return made;
    };
    // A server that goes past Valise's edge waits in memory.
    return { valise, server, ...(flags['no-edge'] === true && { http: await httpV2(server, false) }) };
  },
};

await serveIfMain(import.meta.url, example);
