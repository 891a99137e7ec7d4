// The servers that `rounds.mjs` measures: one tool that asks twice, with each way of keeping its state in between. All are
// called through their web-standard `fetch`, so that the server is measured and not a socket.
import {
  acceptedContent,
  createMcpHandler,
  createRequestStateCodec,
  inputRequired,
  McpServer,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import { createValise } from '../../dist/server/index.js';

const info = { name: 'work-items', version: '1.0.0' };
const tool = { inputSchema: z.object({ workItemId: z.number(), fields: z.record(z.string(), z.unknown()) }) };

export const resolution = {
  message: 'Resolving Bug #4522 requires a resolution. How was this bug resolved?',
  schema: {
    type: 'object',
    properties: {
      resolution: {
        type: 'string',
        enum: ['Fixed', "Won't Fix", 'Duplicate', 'By Design'],
        description: 'Resolution type for this bug',
      },
    },
    required: ['resolution'],
  },
};
export const duplicateOf = {
  message: 'Since this is a duplicate, which work item is the original?',
  schema: {
    type: 'object',
    properties: { duplicateOfId: { type: 'number', description: 'Work item ID of the original bug' } },
    required: ['duplicateOfId'],
  },
};
const done = (id, how, original) => ({
  content: [{ type: 'text', text: `Bug #${id} resolved as ${how} of Bug #${original}.` }],
});

/** Valise: a flow behind its HTTP edge. */
export function ours(options = {}) {
  const valise = createValise({ name: 'work-items', ...options });
  const build = () => {
    const server = valise.install(new McpServer(info));
    server.registerTool(
      'update_work_item',
      tool,
      valise.flow(async ({ workItemId }, flow) => {
        const { resolution: how } = await flow.ask('resolution', resolution);
        const { duplicateOfId } = await flow.ask('duplicateOf', duplicateOf);
        return done(workItemId, how, duplicateOfId);
      }),
    );
    return server;
  };
  return { valise, handler: valise.http(createMcpHandler(build)) };
}

/** The SDK's own mechanism in 2026-07-28: the author keeps the state in a `requestState` that the SDK signs. */
export function signed(key) {
  const codec = createRequestStateCodec({ key, ttlSeconds: 600 });
  return createMcpHandler(() => {
    const server = new McpServer(info, { requestState: { verify: codec.verify } });
    server.registerTool('update_work_item', tool, async ({ workItemId }, ctx) => {
      const { inputResponses } = ctx.mcpReq;
      const known = ctx.mcpReq.requestState() ?? {};
      const how = known.resolution ?? acceptedContent(inputResponses, 'resolution')?.resolution;
      if (how === undefined) {
        return inputRequired({
          inputRequests: {
            resolution: inputRequired.elicit({
              message: resolution.message,
              requestedSchema: resolution.schema,
            }),
          },
          requestState: await codec.mint({ step: 1 }),
        });
      }
      const original = acceptedContent(inputResponses, 'duplicateOf')?.duplicateOfId;
      if (original === undefined) {
        return inputRequired({
          inputRequests: {
            duplicateOf: inputRequired.elicit({
              message: duplicateOf.message,
              requestedSchema: duplicateOf.schema,
            }),
          },
          requestState: await codec.mint({ resolution: how }),
        });
      }
      return done(workItemId, how, original);
    });
    return server;
  });
}

/**
 * The older approach with several instances: the handler waits in the memory of the instance that received the call, stores
 * its state in Redis before it asks, and whichever instance receives the answer forwards it. Uses one connection for
 * commands and one to listen.
 */
export async function waiting(redis, listener) {
  const transports = new Map();
  await listener.pSubscribe('answer:*', (message) => {
    const answer = JSON.parse(message);
    transports.get(answer.id)?.onmessage?.(answer);
  });
  const { WebStandardStreamableHTTPServerTransport } = await import('@modelcontextprotocol/server');
  const ask = async (ctx, state, { message, schema }, transport) => {
    const sent = ctx.mcpReq.send({
      method: 'elicitation/create',
      params: { message, requestedSchema: schema },
    });
    const id = await transport.asked;
    await redis.set(`ask:${id}`, JSON.stringify(state), { EX: 600 });
    transport.release();
    const { content } = await sent;
    await redis.del(`ask:${id}`);
    return content;
  };
  const build = (transport) => {
    const server = new McpServer(info);
    server.registerTool('update_work_item', tool, async ({ workItemId, fields }, ctx) => {
      const { resolution: how } = await ask(ctx, { workItemId, fields }, resolution, transport);
      const { duplicateOfId } = await ask(ctx, { workItemId, fields, how }, duplicateOf, transport);
      return done(workItemId, how, duplicateOfId);
    });
    return server;
  };
  return {
    async fetch(request, { parsedBody }) {
      if (parsedBody.method === undefined) {
        if ((await redis.get(`ask:${parsedBody.id}`)) === null) return new Response(null, { status: 404 });
        await redis.publish(`answer:${parsedBody.id}`, JSON.stringify(parsedBody));
        return new Response(null, { status: 202 });
      }
      const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: undefined });
      const server = build(transport);
      await server.connect(transport);
      gate(transport, transports);
      return transport.handleRequest(request, { parsedBody });
    },
  };
}

/** Gives the questions of a transport ids that no other instance uses, and holds them back until their state is stored. */
function gate(transport, transports) {
  const send = transport.send.bind(transport);
  const wait = () => {
    transport.asked = new Promise((resolve) => {
      transport.named = resolve;
    });
    transport.kept = new Promise((resolve) => {
      transport.release = resolve;
    });
  };
  wait();
  const receive = transport.onmessage;
  const own = new Map();
  transport.onmessage = (message, extra) => {
    const id = own.get(message.id);
    receive(id === undefined ? message : { ...message, id }, extra);
  };
  transport.send = async (message, options) => {
    if (message.method !== 'elicitation/create') return send(message, options);
    const id = crypto.randomUUID();
    own.set(id, message.id);
    transports.set(id, transport);
    const { kept } = transport;
    transport.named(id);
    await kept;
    wait();
    return send({ ...message, id }, options);
  };
}
