import { toJsonSchema } from '@valibot/to-json-schema';
import { type } from 'arktype';
import type { Flow } from 'mcp-valise/server';
import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { z as z3 } from 'zod-3';
import { accept, call, flowPeer, modernCall, text, type Wire } from './flow-peer.ts';
import { MAJORS } from './majors.ts';

const major = MAJORS[1];

/** One form, as each library writes it: a text in a format, a choice, a number with bounds and a flag that may be left out. */
const SCHEMAS: Record<string, unknown> = {
  'zod 4': z.object({
    email: z.email(),
    size: z.enum(['S', 'M']),
    count: z.number().min(1).max(9),
    gift: z.boolean().optional(),
  }),
  'zod 3': z3.object({
    email: z3.string().email(),
    size: z3.enum(['S', 'M']),
    count: z3.number().min(1).max(9),
    gift: z3.boolean().optional(),
  }),
  valibot: v.object({
    email: v.pipe(v.string(), v.email()),
    size: v.picklist(['S', 'M']),
    count: v.pipe(v.number(), v.minValue(1), v.maxValue(9)),
    gift: v.optional(v.boolean()),
  }),
  arktype: type({ email: 'string.email', size: "'S' | 'M'", count: '1 <= number <= 9', 'gift?': 'boolean' }),
};
SCHEMAS['z.toJSONSchema()'] = z.toJSONSchema(SCHEMAS['zod 4'] as z.ZodType);
SCHEMAS['toJsonSchema() of valibot'] = toJsonSchema(SCHEMAS['valibot'] as never);

const asked = async (schema: unknown, content: object) => {
  const peer = await flowPeer(major, async (_, flow) =>
    text(JSON.stringify(await flow.ask('a', { message: 'What?', schema } as never))),
  );
  const first = await peer.say(modernCall());
  const { params } = first['result'].inputRequests.a;
  const { result } = await peer.say(
    modernCall({}, { requestState: first['result'].requestState, inputResponses: { a: accept(content) } }),
  );
  await peer.close();
  return { form: params.requestedSchema, told: result.content[0].text as string, result };
};

describe.each(Object.keys(SCHEMAS))('flow.ask() with a schema of %s', (library) => {
  const schema = SCHEMAS[library];

  it('flow.ask() with a schema of a library asks for a form that every client can show', async () => {
    const { form } = await asked(schema, {});
    expect(form).toMatchObject({
      type: 'object',
      properties: {
        email: { type: 'string', format: 'email' },
        size: { type: 'string', enum: expect.arrayContaining(['S', 'M']) },
        count: { type: 'number', minimum: 1, maximum: 9 },
        gift: { type: 'boolean' },
      },
    });
    expect([...form.required].sort()).toEqual(['count', 'email', 'size']);
    expect(Object.keys(form).sort()).toEqual(['properties', 'required', 'type']);
  });

  it('flow.ask() with a schema of a library returns the answer, and refuses one that does not fit', async () => {
    const answer = { email: 'ada@example.com', size: 'S', count: 3 };
    expect(JSON.parse((await asked(schema, answer)).told)).toEqual(answer);
    const { result, told } = await asked(schema, { ...answer, size: 'L' });
    expect(result.isError).toBe(true);
    expect(told).toMatch(/^The answer to "a" does not fit its schema: .*size/);
  });
});

describe('flow.ask()', () => {
  it('flow.ask() applies the defaults and transforms of a schema', async () => {
    const schema = z.object({
      name: z.string().transform((name) => name.toUpperCase()),
      n: z.number().default(7),
    });
    const { form, told } = await asked(schema, { name: 'ada' });
    expect(form).toMatchObject({ required: ['name'], properties: { n: { default: 7 } } });
    expect(JSON.parse(told)).toEqual({ name: 'ADA', n: 7 });
  });

  it('flow.ask() awaits a schema that validates asynchronously', async () => {
    const schema = z
      .object({ name: z.string() })
      .refine(async ({ name }) => name !== 'nobody', 'somebody, please');
    expect(JSON.parse((await asked(schema, { name: 'ada' })).told)).toEqual({ name: 'ada' });
    expect((await asked(schema, { name: 'nobody' })).told).toMatch(/somebody, please/);
  });

  it('flow.ask() refuses by name a schema that cannot be a form', async () => {
    const peer = await flowPeer(major, async (_, flow) => {
      await flow.ask('a', { message: 'What?', schema: z.object({ deep: z.object({ er: z.string() }) }) });
      return text('unused');
    });
    const { result } = await peer.say(modernCall());
    expect(result.content[0].text).toMatch(/nobody can fill in "deep"/);
    await peer.close();
  });
});

const answering = async (work: (flow: Flow) => Promise<unknown>, result: object): Promise<Wire> => {
  const peer = await flowPeer(major, async (_, flow) => text(JSON.stringify(await work(flow))));
  const first = await peer.say(modernCall());
  const { requestState } = first['result'];
  const done = await peer.say(modernCall({}, { requestState, inputResponses: { a: result } }));
  await peer.close();
  return done['result'];
};

describe('flow.confirm()', () => {
  it.each([
    [accept({}), 'true'],
    [{ action: 'accept' }, 'true'],
    [{ action: 'decline' }, 'false'],
    [{ action: 'cancel' }, 'false'],
  ])('flow.confirm() takes %j for %s', async (answer, told) => {
    const result = await answering((flow) => flow.confirm('a', 'Sure?'), answer);
    expect(result['content'][0].text).toBe(told);
  });
});

describe('flow.choose()', () => {
  const choose = (flow: Flow) => flow.choose('a', 'Which size?', ['S', 'M']);

  it('flow.choose() asks for one of the options, and returns the chosen one', async () => {
    const result = await answering(choose, accept({ choice: 'M' }));
    expect(result['content'][0].text).toBe('"M"');
  });

  it('flow.choose() refuses an answer that is not among the options', async () => {
    const result = await answering(choose, accept({ choice: 'L' }));
    expect(result).toMatchObject({ isError: true });
  });
});

describe('flow.canAsk()', () => {
  it.each([
    [{ elicitation: {} }, 'true'],
    [{}, 'false'],
    [{ sampling: {} }, 'false'],
  ])('flow.canAsk() for a client with the capabilities %j returns %s', async (capabilities, told) => {
    const peer = await flowPeer(major, async (_, flow) => text(String(flow.canAsk())), { capabilities });
    const { result } = await peer.say(call());
    expect(result.content[0].text).toBe(told);
    await peer.close();
  });
});

describe('flow.once()', () => {
  it.each([
    ['a date', new Date(0)],
    ['a map', new Map([['a', 1]])],
    ['bytes', new Uint8Array(2)],
    ['NaN', { n: Number.NaN }],
  ])('flow.once() refuses %s, which JSON cannot carry', async (_, value) => {
    const peer = await flowPeer(major, async (_args, flow) => {
      await flow.once('a', () => value);
      return text('fine');
    });
    const { result } = await peer.say(modernCall());
    expect(result).toMatchObject({ isError: true });
    expect(result.content[0].text).toMatch(/^What the effect "a" returned/);
    await peer.close();
  });

  it('flow.once() carries plain data, null and undefined', async () => {
    for (const value of [{ a: [1, 'b', null] }, null, undefined, 0, false]) {
      const peer = await flowPeer(major, async (_args, flow) =>
        text(String(JSON.stringify(await flow.once('a', () => value)))),
      );
      expect((await peer.say(modernCall()))['result'].content[0].text).toBe(String(JSON.stringify(value)));
      await peer.close();
    }
  });
});
