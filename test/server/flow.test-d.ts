import {
  McpServer as McpServerV1,
  ResourceTemplate as TemplateV1,
} from '@modelcontextprotocol/sdk/server/mcp.js';
import {
  McpServer as McpServerV2,
  type ServerContext,
  ResourceTemplate as TemplateV2,
} from '@modelcontextprotocol/server';
import { type } from 'arktype';
import { createValise, type Flow } from 'mcp-valise/server';
import * as v from 'valibot';
import { describe, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import { z as z3 } from 'zod-3';

declare const flow: Flow;
const valise = createValise({ name: 'test' });
const info = { name: 'test', version: '1.0.0' };
const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });

describe('a flow', () => {
  it('a flow takes the arguments of a tool, prompt or resource of SDK v2', () => {
    const server = new McpServerV2(info);
    server.registerTool(
      'tool',
      { inputSchema: z.object({ id: z.number() }) },
      valise.flow(async ({ id }, given) => {
        expectTypeOf(id).toEqualTypeOf<number>();
        expectTypeOf(given).toEqualTypeOf<Flow<ServerContext>>();
        expectTypeOf(given).toExtend<Flow>();
        return text(String(id));
      }),
    );
    server.registerTool(
      'bare',
      {},
      valise.flow(async (given) => text(given.id)),
    );
    server.registerPrompt(
      'prompt',
      { argsSchema: z.object({ who: z.string() }) },
      valise.flow(async ({ who }, given) => ({
        messages: [{ role: 'user' as const, content: { type: 'text' as const, text: who + given.id } }],
      })),
    );
    server.registerResource(
      'page',
      'page://one',
      {},
      valise.flow(async (uri, given) => ({ contents: [{ uri: uri.href, text: given.id }] })),
    );
    server.registerResource(
      'pages',
      new TemplateV2('page://{name}', { list: undefined }),
      {},
      valise.flow(async (uri, variables, given) => ({
        contents: [{ uri: uri.href, text: String(variables['name']) + given.id }],
      })),
    );
  });

  it('a flow takes the arguments of a tool, prompt or resource of SDK v1', () => {
    const server = new McpServerV1(info);
    server.registerTool(
      'tool',
      { inputSchema: { id: z.number() } },
      valise.flow(async ({ id }, given) => {
        expectTypeOf(id).toEqualTypeOf<number>();
        expectTypeOf(given).toExtend<Flow>();
        expectTypeOf(given.extra.signal).toEqualTypeOf<AbortSignal>();
        return text(String(id));
      }),
    );
    server.registerTool(
      'bare',
      {},
      valise.flow(async (given) => text(given.id)),
    );
    server.registerResource(
      'pages',
      new TemplateV1('page://{name}', { list: undefined }),
      {},
      valise.flow(async (uri, variables, given) => ({
        contents: [{ uri: uri.href, text: String(variables['name']) + given.id }],
      })),
    );
  });

  it('flow.ask() infers the fields of a form', async () => {
    const answer = await flow.ask('a', {
      message: 'How?',
      schema: {
        type: 'object',
        properties: {
          how: { type: 'string', enum: ['Fixed', 'Duplicate'] },
          id: { type: 'integer' },
          sure: { type: 'boolean' },
          why: { type: 'string' },
          tags: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } },
          kind: {
            type: 'string',
            oneOf: [
              { const: 'x', title: 'X' },
              { const: 'y', title: 'Y' },
            ],
          },
        },
        required: ['how', 'id'],
      },
    });
    expectTypeOf(answer.how).toEqualTypeOf<'Fixed' | 'Duplicate'>();
    expectTypeOf(answer.id).toEqualTypeOf<number>();
    expectTypeOf(answer.sure).toEqualTypeOf<boolean | undefined>();
    expectTypeOf(answer.why).toEqualTypeOf<string | undefined>();
    expectTypeOf(answer.tags).toEqualTypeOf<readonly ('a' | 'b')[] | undefined>();
    expectTypeOf(answer.kind).toEqualTypeOf<'x' | 'y' | undefined>();
  });

  it('flow.ask() infers the type of a refusal', async () => {
    const schema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] } as const;
    const reaction = await flow.ask('a', { message: 'How many?', schema, refusal: 'value' });
    if (reaction.action === 'accept') expectTypeOf(reaction.content.n).toEqualTypeOf<number>();
    else expectTypeOf(reaction.action).toEqualTypeOf<'decline' | 'cancel'>();
  });

  it('flow.once() returns the type that the effect returns', async () => {
    interface Order {
      readonly id: string;
    }
    expectTypeOf(await flow.once('order', async (): Promise<Order> => ({ id: '1' }))).toEqualTypeOf<Order>();
    expectTypeOf(await flow.once('nothing', () => {})).toEqualTypeOf<void>();
    expectTypeOf(await flow.until('done', (): string | undefined => undefined)).toEqualTypeOf<string>();
  });
});

describe('flow.ask', () => {
  it('flow.ask() returns the output type of a library schema', async () => {
    const of = { message: 'Who?' };
    const four = await flow.ask('a', {
      ...of,
      schema: z.object({ name: z.string(), age: z.number().default(1) }),
    });
    expectTypeOf(four).toEqualTypeOf<{ name: string; age: number }>();
    const three = await flow.ask('b', {
      ...of,
      schema: z3.object({ size: z3.enum(['S', 'M']), n: z3.number().optional() }),
    });
    expectTypeOf(three).toEqualTypeOf<{ size: 'S' | 'M'; n?: number | undefined }>();
    const valibot = await flow.ask('c', { ...of, schema: v.object({ size: v.picklist(['S', 'M']) }) });
    expectTypeOf(valibot).toEqualTypeOf<{ size: 'S' | 'M' }>();
    const ark = await flow.ask('d', { ...of, schema: type({ size: "'S' | 'M'" }) });
    expectTypeOf(ark).toEqualTypeOf<{ size: 'S' | 'M' }>();
    const refused = await flow.ask('e', {
      ...of,
      schema: z.object({ name: z.string() }),
      refusal: 'value',
    });
    if (refused.action === 'accept') expectTypeOf(refused.content).toEqualTypeOf<{ name: string }>();
  });

  it('flow.ask() takes JSON Schema from a library or from a constant', async () => {
    await flow.ask('a', { message: 'Who?', schema: z.toJSONSchema(z.object({ name: z.string() })) });
    const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    expectTypeOf((await flow.ask('b', { message: 'Who?', schema })).name).toExtend<unknown>();
  });
});

describe('flow.choose and flow.confirm', () => {
  it('flow.choose() returns one of the options, and flow.confirm() a boolean', async () => {
    expectTypeOf(await flow.choose('a', 'Which?', ['S', 'M'])).toEqualTypeOf<'S' | 'M'>();
    expectTypeOf(await flow.confirm('b', 'Sure?')).toEqualTypeOf<boolean>();
    expectTypeOf(flow.canAsk()).toEqualTypeOf<boolean>();
  });
});
