import { InMemoryTransport as MemoryV2 } from '@modelcontextprotocol/client';
import { InMemoryTransport as MemoryV1 } from '@modelcontextprotocol/sdk/inMemory.js';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import {
  InitializeRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListToolsRequestSchema,
  PingRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { McpServer as McpServerV2 } from '@modelcontextprotocol/server';

/** Both majors of the SDK, with one type: what the tests use of them is the same in both. */
export const MAJORS = [
  {
    major: 'v1',
    McpServer: McpServerV1 as unknown as typeof McpServerV2,
    Memory: MemoryV1 as unknown as typeof MemoryV2,
  },
  { major: 'v2', McpServer: McpServerV2, Memory: MemoryV2 },
] as const;

export type Major = (typeof MAJORS)[number];

const SCHEMAS = {
  initialize: InitializeRequestSchema,
  ping: PingRequestSchema,
  'tools/list': ListToolsRequestSchema,
  'prompts/list': ListPromptsRequestSchema,
  'resources/list': ListResourcesRequestSchema,
};

/** Replaces a handler of the SDK's own, which each major spells in its way. */
export function setHandler(
  { major }: Major,
  { server }: Pick<McpServerV2, 'server'>,
  method: keyof typeof SCHEMAS,
  handler: (request: unknown) => Promise<object>,
): void {
  const set = server.setRequestHandler.bind(server) as (key: unknown, handler: unknown) => void;
  set(major === 'v1' ? SCHEMAS[method] : method, handler);
}
