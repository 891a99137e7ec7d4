import type { Kind } from './clients.ts';
import { inProcesses, onBun, onDeno, onLambda, onNext, onNode, onNode22, onWorkerd } from './runtimes.ts';
import type { Started } from './start.ts';

/** The columns of the table in docs/frameworks.md. */
export const COLUMNS = {
  'stock-jar': 'state, stock client',
  'stock-ask': 'question, stock client',
  'valise-jar': 'state, client with Valise',
  'valise-ask': 'question, client with Valise',
} as const;
export type Column = keyof typeof COLUMNS;

/** A row of the table: a framework, its example, and how that is started. */
export interface Framework {
  readonly name: string;
  /** The file in examples/frameworks, without `.ts`. */
  readonly example: string;
  /** The packages whose versions the row names. */
  readonly packages: readonly string[];
  start(): Promise<Started>;
  /** The clients that it is tried with; all by default. */
  readonly clients?: readonly Kind[];
  /** What holds where it works, in place of the word alone. */
  readonly limits?: Partial<Record<Column, string>>;
  /** What does not work, why, and what to do instead. The tests fail if it works after all. */
  readonly fails?: Partial<Record<Column, string>>;
}

const IN_ONE_PROCESS = 'works in one process, which has the sessions';

export const FRAMEWORKS: readonly Framework[] = [
  {
    name: 'node:http',
    example: 'node-http',
    packages: ['@modelcontextprotocol/node'],
    start: onNode('node-http'),
  },
  {
    name: 'Express, SDK 2',
    example: 'express',
    packages: ['express', '@modelcontextprotocol/express'],
    start: onNode('express'),
  },
  {
    name: 'Express, SDK 1',
    example: 'express-v1',
    packages: ['express', '@modelcontextprotocol/sdk'],
    start: onNode('express-v1'),
    clients: ['SDK 1', 'SDK 2, 2025-11-25'],
  },
  { name: 'Hono on Node', example: 'hono', packages: ['hono', '@hono/node-server'], start: onNode('hono') },
  { name: 'Fastify', example: 'fastify', packages: ['fastify'], start: onNode('fastify') },
  { name: 'Next.js, mcp-handler', example: 'next', packages: ['next', 'mcp-handler'], start: onNext('next') },
  {
    name: 'Cloudflare Workers',
    example: 'workers',
    packages: ['workerd'],
    start: onWorkerd('workers'),
  },
  {
    name: 'Hono on Workers',
    example: 'hono-workers',
    packages: ['hono', 'workerd'],
    start: onWorkerd('hono-workers'),
  },
  { name: 'Deno', example: 'deno', packages: ['deno'], start: onDeno('deno') },
  { name: 'Bun', example: 'bun', packages: ['bun'], start: onBun('bun') },
  {
    name: 'AWS Lambda, streaming',
    example: 'lambda-streaming',
    packages: ['hono'],
    start: onLambda('lambda-streaming'),
  },
  {
    name: 'AWS Lambda, buffered',
    example: 'lambda',
    packages: ['hono'],
    start: onLambda('lambda'),
    fails: {
      'stock-ask':
        '2026-07-28 only: on 2025-11-25 the question is part of a response that is still open, and so is never sent. Next: stream the response.',
    },
  },
  {
    name: 'node:cluster',
    example: 'cluster',
    packages: ['@modelcontextprotocol/node'],
    start: inProcesses('cluster'),
  },
  {
    name: 'NestJS, @rekog/mcp-nest',
    example: 'nest',
    packages: ['@nestjs/core', '@rekog/mcp-nest'],
    start: onNode('nest'),
  },
  {
    name: 'fastmcp',
    example: 'fastmcp',
    packages: ['fastmcp'],
    start: onNode('fastmcp'),
    limits: { 'stock-jar': IN_ONE_PROCESS, 'stock-ask': IN_ONE_PROCESS, 'valise-ask': IN_ONE_PROCESS },
    clients: ['SDK 1', 'SDK 2, 2025-11-25'],
  },
  {
    name: 'Mastra',
    example: 'mastra',
    packages: ['@mastra/mcp'],
    start: onNode22('mastra'),
    clients: ['SDK 2, 2026-07-28'],
  },
];

/** Frameworks that let nobody reach the servers they make: nothing of Valise works in them. */
export const CLOSED = [
  {
    name: 'mcp-use',
    packages: ['mcp-use'],
    reason:
      'Not possible: the SDK is bundled into the package, and the servers are made in a private method. Next: serve those tools with an SDK handler beside it.',
  },
  {
    name: 'xmcp',
    packages: ['xmcp'],
    reason:
      'Not possible: the compiled runtime makes the servers, and no export gives them out. Next: serve those tools with an SDK handler beside it.',
  },
] as const;
