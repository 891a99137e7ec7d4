import {
  McpServer as McpServerV1,
  ResourceTemplate as TemplateV1,
} from '@modelcontextprotocol/sdk/server/mcp.js';
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js';
import {
  ResultSchema,
  type ServerNotification,
  type ServerRequest,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { McpServer, ResourceTemplate, type ServerContext } from '@modelcontextprotocol/server';
import { z } from 'zod';

type ExtraV1 = RequestHandlerExtra<ServerRequest, ServerNotification>;
type Params = Record<string, unknown>;

/** What the fixture server needs of an SDK major, where the majors differ. */
export interface Kit {
  readonly sdk: 'v1' | 'v2';
  readonly McpServer: typeof McpServer;
  readonly ResourceTemplate: typeof ResourceTemplate;
  /** The arguments of a prompt, as the major declares them. */
  args<Shape extends z.ZodRawShape>(shape: Shape): z.ZodObject<Shape>;
  /** Asks the client in the middle of a call. */
  ask(context: unknown, method: string, params: Params): Promise<Params>;
  notify(context: unknown, method: string, params: Params): Promise<void>;
  progressToken(context: unknown): string | number | undefined;
  /** Ends the stream of the call, so that the client must come again for its answer. */
  cut(context: unknown): void;
  /** Takes subscriptions to resources, for clients of the older era. */
  takeSubscriptions(server: McpServer, taken?: (uri: string) => void): void;
}

export const kits: Readonly<Record<'v1' | 'v2', Kit>> = {
  v1: {
    sdk: 'v1',
    McpServer: McpServerV1 as unknown as typeof McpServer,
    ResourceTemplate: TemplateV1 as unknown as typeof ResourceTemplate,
    args: (shape) => shape as never,
    ask: (context, method, params) =>
      (context as ExtraV1).sendRequest({ method, params } as ServerRequest, ResultSchema) as Promise<Params>,
    notify: (context, method, params) =>
      (context as ExtraV1).sendNotification({ method, params } as ServerNotification),
    progressToken: (context) => (context as ExtraV1)._meta?.progressToken,
    cut: (context) => (context as ExtraV1).closeSSEStream?.(),
    takeSubscriptions(server, taken) {
      const { server: inner } = server as unknown as McpServerV1;
      inner.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
        taken?.(params.uri);
        return {};
      });
      inner.setRequestHandler(UnsubscribeRequestSchema, () => ({}));
    },
  },
  v2: {
    sdk: 'v2',
    McpServer,
    ResourceTemplate,
    args: (shape) => z.object(shape),
    ask: (context, method, params) =>
      (context as ServerContext).mcpReq.send({
        method: method as 'elicitation/create',
        params,
      }) as Promise<Params>,
    notify: (context, method, params) => (context as ServerContext).mcpReq.notify({ method, params }),
    progressToken: (context) => (context as ServerContext).mcpReq._meta?.progressToken,
    cut: (context) => (context as ServerContext).http?.closeSSE?.(),
    takeSubscriptions({ server }, taken) {
      server.setRequestHandler('resources/subscribe', ({ params }) => {
        taken?.(params.uri);
        return {};
      });
      server.setRequestHandler('resources/unsubscribe', () => ({}));
    },
  },
};
