import 'reflect-metadata';
import { createServer } from 'node:http';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Ctx } from '@nestjs/microservices';
import { type McpContext, McpController, McpStrategy, StreamableHttpTransport, Tool } from '@rekog/mcp-nest';
import { createValise } from 'mcp-valise/server';

const valise = createValise({
  name: 'notes',
  store: process.env['VALISE_STORE'] ?? 'memory:',
  // Valise does not see the `_meta` of these tools, so all of them take a handle.
  handles: 'all',
});

const order = valise.flow(async (flow) => {
  const size = await flow.choose('size', 'Which size?', ['S', 'M', 'L']);
  return { content: [{ type: 'text', text: `ordered size ${size}` }] };
});

@McpController()
class Notes {
  @Tool({ name: 'visit', description: 'Counts visits.' })
  visit() {
    const { server: kept } = valise.jar;
    const visits = Number(kept.get('visits') ?? 0) + 1;
    kept.set('visits', visits);
    return { content: [{ type: 'text', text: `visit ${visits}` }] };
  }

  @Tool({ name: 'order', description: 'Orders a shirt, in a size that the user chooses.' })
  order(@Ctx() context: McpContext) {
    return order(context);
  }
}

@Module({ controllers: [Notes] })
class App {}

const mcp = new McpStrategy({
  name: 'notes',
  version: '1.0.0',
  transports: [new StreamableHttpTransport()],
  // Called for each server that the strategy makes.
  serverMutator: (server) => valise.install(server),
});
const app = await NestFactory.create(App, { logger: ['error', 'warn'] });
mcp.setHttpAdapter(app.getHttpAdapter());
app.connectMicroservice({ strategy: mcp });
await app.startAllMicroservices();
await app.init();
// In place of app.listen(): the same server, with Valise before it.
createServer(valise.http(app.getHttpAdapter().getInstance())).listen(
  Number(process.env['PORT'] ?? 3000),
  '127.0.0.1',
);
