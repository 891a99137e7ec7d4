import type { Kind } from './clients.ts';
import { type Started, start } from './start.ts';

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
  /** What does not work, why, and what to do instead. The tests fail if it works after all. */
  readonly fails?: Partial<Record<Column, string>>;
}

/** Runs an example on Node. */
const node = (example: string) => () => start(process.execPath, ['--import', 'tsx', `${example}.ts`]);

export const FRAMEWORKS: readonly Framework[] = [
  {
    name: 'node:http',
    example: 'node-http',
    packages: ['@modelcontextprotocol/node'],
    start: node('node-http'),
  },
  {
    name: 'Express, SDK 2',
    example: 'express',
    packages: ['express', '@modelcontextprotocol/express'],
    start: node('express'),
  },
  {
    name: 'Express, SDK 1',
    example: 'express-v1',
    packages: ['express', '@modelcontextprotocol/sdk'],
    start: node('express-v1'),
    clients: ['SDK 1', 'SDK 2, 2025-11-25'],
  },
  { name: 'Hono on Node', example: 'hono', packages: ['hono', '@hono/node-server'], start: node('hono') },
  { name: 'Fastify', example: 'fastify', packages: ['fastify'], start: node('fastify') },
];
