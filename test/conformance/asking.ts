import type { McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { Kit } from './kit.ts';

/** The forms that the suites want to be asked, in the way of the older era: with a request in the middle of the call. */
const FORMS = {
  test_elicitation_sep1034_defaults: {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  },
  test_elicitation_sep1330_enums: {
    untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
    titledSingle: { type: 'string', oneOf: titled('Option') },
    legacyEnum: {
      type: 'string',
      enum: ['opt1', 'opt2', 'opt3'],
      enumNames: ['Option One', 'Option Two', 'Option Three'],
    },
    untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
    titledMulti: { type: 'array', items: { anyOf: titled('Choice') } },
  },
};

function titled(noun: string) {
  return ['First', 'Second', 'Third'].map((nth, index) => ({
    const: `value${index + 1}`,
    title: `${nth} ${noun}`,
  }));
}

const say = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });
const told = ({ action, content }: Record<string, unknown>) =>
  `action=${action}, content=${JSON.stringify(content ?? {})}`;
const form = (properties: object, required: string[] = []) => ({ type: 'object', properties, required });
const nothing = z.object({});

/** Tools that ask, report or log while they work. */
export function addAsking(server: McpServer, { ask, notify, progressToken, cut }: Kit): void {
  for (const [name, properties] of Object.entries(FORMS)) {
    server.registerTool(
      name,
      { description: 'Asks the user', inputSchema: nothing },
      async (_args, context) => {
        const params = { message: 'Please fill this in', requestedSchema: form(properties) };
        return say(`Elicitation completed: ${told(await ask(context, 'elicitation/create', params))}`);
      },
    );
  }

  server.registerTool(
    'test_elicitation',
    { description: 'Asks the user', inputSchema: z.object({ message: z.string() }) },
    async ({ message }, context) => {
      const fields = { username: { type: 'string' }, email: { type: 'string' } };
      const params = { message, requestedSchema: form(fields, Object.keys(fields)) };
      return say(`User response: ${told(await ask(context, 'elicitation/create', params))}`);
    },
  );

  server.registerTool(
    'test_sampling',
    { description: "Asks the client's model", inputSchema: z.object({ prompt: z.string() }) },
    async ({ prompt }, context) => {
      const messages = [{ role: 'user', content: { type: 'text', text: prompt } }];
      const { content } = await ask(context, 'sampling/createMessage', { messages, maxTokens: 100 });
      return say(`LLM response: ${(content as { text?: string }).text}`);
    },
  );

  server.registerTool(
    'test_tool_with_logging',
    { description: 'Logs as it goes', inputSchema: nothing },
    async (_args, context) => {
      for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed'])
        await notify(context, 'notifications/message', { level: 'info', data });
      return say('Done.');
    },
  );

  server.registerTool(
    'test_tool_with_progress',
    { description: 'Tells how far it is', inputSchema: nothing },
    async (_args, context) => {
      const token = progressToken(context);
      for (const progress of token === undefined ? [] : [0, 50, 100])
        await notify(context, 'notifications/progress', { progressToken: token, progress, total: 100 });
      return say('Done.');
    },
  );

  server.registerTool(
    'test_reconnection',
    { description: 'Closes its stream before it answers', inputSchema: nothing },
    async (_args, context) => {
      cut(context);
      return say('Whoever reads this has come again for it.');
    },
  );
}
