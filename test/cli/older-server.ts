import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import {
  CreateMessageResultSchema,
  ElicitResultSchema,
  ListRootsResultSchema,
  McpError,
  SetLevelRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });

const form = (field: string) => ({
  mode: 'form' as const,
  message: `Your ${field}?`,
  requestedSchema: {
    type: 'object' as const,
    properties: { [field]: { type: 'string' as const } },
    required: [field],
  },
});

/** A server of the v1 SDK, which knows nothing of 2026-07-28, with one of everything that a bridge must translate. */
export function olderServer(): McpServer {
  const server = new McpServer(
    { name: 'older', version: '1.2.3' },
    {
      instructions: 'be patient',
      capabilities: { logging: {}, resources: { subscribe: true, listChanged: true } },
    },
  );
  const elicit = (field: string) => ({ method: 'elicitation/create' as const, params: form(field) });

  server.registerTool('add', { inputSchema: { a: z.number(), b: z.number() } }, ({ a, b }) =>
    text(String(a + b)),
  );
  // Names what arrived in `_meta`, so that a test sees what the bridge took off.
  server.registerTool('meta', {}, (extra) => text(Object.keys(extra._meta ?? {}).join()));
  server.registerTool('greet', {}, async (extra) => {
    const name = await extra.sendRequest(elicit('name'), ElicitResultSchema);
    if (name.action !== 'accept') return text(`not told: ${name.action}`);
    const city = await extra.sendRequest(elicit('city'), ElicitResultSchema);
    return text(`Hello ${name.content?.['name']} of ${city.content?.['city']}`);
  });
  server.registerTool('gather', {}, async (extra) => {
    const [name, { roots }, { content }] = await Promise.all([
      extra.sendRequest(elicit('name'), ElicitResultSchema),
      extra.sendRequest({ method: 'roots/list' }, ListRootsResultSchema),
      extra.sendRequest(
        {
          method: 'sampling/createMessage',
          params: { messages: [{ role: 'user', content: { type: 'text', text: 'hi' } }], maxTokens: 9 },
        },
        CreateMessageResultSchema,
      ),
    ]);
    const said = 'text' in content ? content.text : '';
    return text(`${name.content?.['name']} in ${roots[0]?.uri} says ${said}`);
  });
  // Takes its second step, and ends, when it is told to: by then the host has seen what came before.
  let step = (): void => {};
  server.registerTool('count', {}, async (extra) => {
    const { progressToken } = extra._meta ?? {};
    for (const progress of [1, 2]) {
      const told = new Promise<void>((resolve) => (step = resolve));
      if (progressToken !== undefined)
        await extra.sendNotification({
          method: 'notifications/progress',
          params: { progressToken, progress, total: 2 },
        });
      await told;
    }
    return text('counted');
  });
  server.registerTool('step', {}, () => {
    step();
    return text('go on');
  });
  server.registerTool('grow', {}, () => {
    server.registerTool('grown', {}, () => text('new'));
    return text('done');
  });
  let level = 'not set';
  server.server.setRequestHandler(SetLevelRequestSchema, ({ params }) => {
    level = params.level;
    return {};
  });
  server.registerTool('shout', {}, async (extra) => {
    await extra.sendNotification({
      method: 'notifications/message',
      params: { level: 'info', data: 'hear, hear' },
    });
    return text(level);
  });

  const subscribed = new Set<string>();
  let asked = '';
  server.server.setRequestHandler(SubscribeRequestSchema, async ({ params }) => {
    subscribed.add(params.uri);
    // No call of the host is under way then.
    if (params.uri === 'memo://ask')
      asked = await server.server.elicitInput(form('name')).then(
        ({ action }) => action,
        (error: Error) => error.message,
      );
    return {};
  });
  server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => {
    subscribed.delete(params.uri);
    return {};
  });
  server.registerTool('touch', {}, async () => {
    for (const uri of subscribed) await server.server.sendResourceUpdated({ uri });
    return text([...subscribed].join());
  });

  let started = (): void => {};
  const waiting = new Promise<void>((resolve) => (started = resolve));
  let cancelled: (reason: string) => void = () => {};
  const cancellation = new Promise<string>((resolve) => (cancelled = resolve));
  server.registerTool('wait', {}, async ({ signal }) => {
    signal.addEventListener('abort', () => cancelled('cancelled'));
    started();
    return text(await cancellation);
  });
  server.registerTool('waiting', {}, async () => {
    await waiting;
    return text('it waits');
  });
  server.registerTool('was_cancelled', {}, async () => text(await cancellation));

  // As those of the SDK's users do: nothing hands the signal of the call on to the question.
  let refused: (why: string) => void = () => {};
  const refusal = new Promise<string>((resolve) => (refused = resolve));
  server.registerTool('confide', {}, async ({ signal, sendRequest }) => {
    const why = await sendRequest(elicit('secret'), ElicitResultSchema).then(
      String,
      (error: Error) => error.message,
    );
    refused(`${signal.aborted ? 'cancelled' : 'under way'}: ${why}`);
    return text(why);
  });
  server.registerTool('confided', {}, async () => text(await refusal));

  server.registerTool('asked', {}, () => text(asked));

  server.registerPrompt('hello', { argsSchema: { who: z.string() } }, ({ who }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Hello ${who}` } }],
  }));
  server.registerResource('memo', 'memo://one', {}, ({ href }) => ({
    contents: [{ uri: href, text: 'one' }],
  }));
  server.registerResource('gone', 'memo://gone', {}, () => {
    throw new McpError(-32002, 'gone');
  });
  return server;
}

/** How to start it over stdio. */
export const OLDER_SERVER = fileURLToPath(import.meta.url);

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  await olderServer().connect(new StdioServerTransport());
