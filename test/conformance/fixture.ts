import { fromJsonSchema, type McpServer, type ServerNotifier } from '@modelcontextprotocol/server';
import type { ServerValise } from 'mcp-valise/server';
import { z } from 'zod';
import { addAsking } from './asking.ts';
import { addContents, addPrompts, addResources } from './contents.ts';
import { type Kit, kits } from './kit.ts';
import { addRounds, byFlow, bySdk, verifyState } from './rounds.ts';

/** What a fixture server is to be. */
export interface FixtureOptions {
  readonly sdk: 'v1' | 'v2';
  /** With Valise installed. */
  readonly valise?: ServerValise | undefined;
  /** Who asks in rounds: the SDK, or `valise.flow`. */
  readonly rounds?: 'sdk' | 'flow' | undefined;
}

/** A server with everything that the suites' scenarios call, on either SDK major. */
export function fixtureServer({ sdk, valise, rounds }: FixtureOptions, notifier?: ServerNotifier): McpServer {
  const kit: Kit = kits[sdk];
  const changes = { listChanged: true };
  const server = new kit.McpServer(
    { name: 'conformance-fixture', version: '1.0.0' },
    {
      capabilities: {
        tools: changes,
        prompts: changes,
        resources: { ...changes, subscribe: true },
        logging: {},
      },
      ...(sdk === 'v2' && rounds !== 'flow' && { requestState: { verify: verifyState } }),
    },
  );
  valise?.install(server);
  // A tool whose arguments travel in headers too; first, since a scenario tries its wrong headers on the first tool.
  if (sdk === 'v2') addNewer(server, notifier);
  addContents(server);
  addAsking(server, kit);
  addResources(server, kit);
  addPrompts(server, kit);
  if (sdk === 'v2') addRounds(server, rounds === 'flow' && valise ? byFlow(valise) : bySdk);
  return server;
}

/** What only v2 can serve. */
function addNewer(server: McpServer, notifier: ServerNotifier | undefined): void {
  const done = async () => ({ content: [{ type: 'text' as const, text: 'Done.' }] });
  const nothing = z.object({});
  server.registerTool(
    'test_x_mcp_header',
    {
      description: 'Its region travels in a header too',
      inputSchema: fromJsonSchema(IN_HEADER),
    },
    done,
  );
  server.registerTool(
    'json_schema_2020_12_tool',
    { description: 'Tool with JSON Schema 2020-12 features', inputSchema: fromJsonSchema(SCHEMA) },
    done,
  );
  server.registerTool(
    'test_logging_tool',
    { description: 'Logs to whoever asked for it', inputSchema: nothing },
    async (_args, context) => {
      await context.mcpReq.log('info', 'logged');
      return done();
    },
  );
  server.registerTool('test_trigger_tool_change', { description: 'Says so', inputSchema: nothing }, () => {
    notifier?.toolsChanged();
    return done();
  });
  server.registerTool('test_trigger_prompt_change', { description: 'Says so', inputSchema: nothing }, () => {
    notifier?.promptsChanged();
    return done();
  });
}

const IN_HEADER: object = {
  type: 'object',
  properties: { region: { type: 'string', 'x-mcp-header': 'Region' }, level: { type: 'integer' } },
};

const SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};
