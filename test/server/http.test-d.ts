import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, type McpServer } from '@modelcontextprotocol/server';
import express, { type Request as ExpressRequest, type Response as ExpressResponse } from 'express';
import { Hono } from 'hono';
import { createValise } from 'mcp-valise/server';
import { describe, expectTypeOf, it } from 'vitest';

declare const server: McpServer;
const valise = createValise({ name: 'test' });
const mcp = createMcpHandler(() => server);

/** As Next.js has it: a subclass of `Request`, and the parameters of the route. */
declare class NextRequest extends Request {
  readonly nextUrl: URL;
}
interface RouteContext {
  readonly params: Promise<{ readonly transport: string }>;
}

/** What `next build` asks of the exports of a route, in `.next/types/validator.ts`. */
type RouteHandler = (
  request: NextRequest,
  context: RouteContext,
  // biome-ignore lint/suspicious/noConfusingVoidType: as Next.js has it
) => Promise<Response | void> | Response | void;

describe('valise.http()', () => {
  it('valise.http() turns a fetch handler into a fetch handler, and infers its parameter', () => {
    const handler = valise.http((request) => {
      expectTypeOf(request).toEqualTypeOf<Request>();
      return mcp.fetch(request);
    });
    expectTypeOf(handler).toEqualTypeOf<(request: Request) => Promise<Response>>();
    const awaited = valise.http(async (request) => new Response(request.url));
    expectTypeOf(awaited).toEqualTypeOf<(request: Request) => Promise<Response>>();
  });

  it('valise.http() turns a Node handler into a Node handler, and infers its parameters', () => {
    const two = valise.http((request, response) => {
      expectTypeOf(request).toEqualTypeOf<IncomingMessage>();
      expectTypeOf(response).toEqualTypeOf<ServerResponse>();
      response.end();
    });
    expectTypeOf(two).toExtend<RequestListener>();
    expectTypeOf(two).returns.toEqualTypeOf<Promise<void>>();
    const three = valise.http(async (request, response, body) => {
      expectTypeOf(request).toEqualTypeOf<IncomingMessage>();
      expectTypeOf(body).toEqualTypeOf<unknown>();
      response.end();
    });
    expectTypeOf(three).toExtend<RequestListener>();
    expectTypeOf(valise.http(toNodeHandler(mcp))).toExtend<RequestListener>();
  });

  it('valise.http() takes Express and Hono apps, and handlers of Express', () => {
    expectTypeOf(valise.http(express())).toExtend<RequestListener>();
    const app = new Hono();
    expectTypeOf(valise.http(app)).toEqualTypeOf<typeof app>();
    const route = valise.http((request: ExpressRequest, response: ExpressResponse) => {
      response.json(request.body);
    });
    express().all('/mcp', route);
    express().all(
      '/mcp',
      valise.http((_request, response) => void response.end()),
    );
  });

  it('valise.http() keeps the other members of a handler object', () => {
    expectTypeOf(valise.http(mcp)).toEqualTypeOf<typeof mcp>();
  });

  it('valise.http() returns a handler that Next.js takes as a route', () => {
    const one = valise.http((request) => mcp.fetch(request));
    const two = valise.http(async (request: NextRequest, context: RouteContext) => {
      await context.params;
      return new Response(request.nextUrl.href);
    });
    expectTypeOf(one).toExtend<RouteHandler>();
    expectTypeOf(two).toExtend<RouteHandler>();
    // A second parameter that is not the route's context fails the build.
    expectTypeOf<Parameters<typeof one>>().toEqualTypeOf<[request: Request]>();
  });
});
