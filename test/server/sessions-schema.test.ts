import { type } from 'arktype';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { resultOf, textOf } from './raw-client.ts';
import { connect, type Does, makeServer, STAGES } from './sessions-tool.ts';

const Notes = z.object({
  notes: z.array(z.string()).default([]),
  since: z.iso
    .datetime()
    .transform((text) => new Date(text))
    .optional(),
  count: z.number().optional(),
});

const SCHEMAS = [
  { library: 'zod', schema: Notes },
  { library: 'valibot', schema: v.object({ notes: v.array(v.string()), count: v.optional(v.number()) }) },
  { library: 'arktype', schema: type({ notes: 'string[]', 'count?': 'number' }) },
];

const MODES = STAGES.flatMap((at) =>
  (['sealed', 'stored'] as const).map((mode) => ({ at, stage: at.stage, mode })),
);

describe.each(MODES)('a schema of $mode sessions, on $stage', ({ at, mode }) => {
  const run = async (schema: object, ...works: readonly Does[]) => {
    let step = 0;
    const { valise } = makeServer((session, args) => works[step++]?.(session, args), {
      store: memoryStore(),
      sessions: { mode, schema: schema as typeof Notes },
    });
    const client = await connect(valise, at);
    const said: unknown[] = [];
    let session = await client.create();
    for (const _ of works) {
      const result = resultOf(await client.in(session));
      session = { ...session, ...at.sessionIn(result) };
      const text = textOf(result);
      said.push(result['isError'] ? text : JSON.parse(text));
    }
    return said;
  };

  it.each(SCHEMAS)(
    'set refuses a value that does not fit the schema and keeps the previous one ($library)',
    async ({ schema }) => {
      const said = await run(
        schema,
        (session) => session?.set('notes', ['a']),
        (session) => session?.set('notes', ['a', 1] as never),
        (session) => session?.get('notes'),
      );
      expect(said[1]).toMatch(/The value for "notes" does not fit the schema of the session: notes\.1/);
      expect(said[2]).toEqual(['a']);
    },
  );

  it('values may be set one after another, and get returns what the schema reads', async () => {
    const [first, second] = await run(
      Notes,
      (session) => {
        const before = session?.get('notes');
        session?.set('since', '2026-07-28T00:00:00Z');
        return [before, session?.get('count') ?? 'none', session?.get<Date>('since')?.getTime()];
      },
      (session) => session?.get<Date>('since')?.getTime(),
    );
    const time = Date.parse('2026-07-28T00:00:00Z');
    expect(first).toEqual([[], 'none', time]);
    expect(second).toBe(time);
  });

  it('the schema does not cover namespaces or keys that it does not name', async () => {
    const [said] = await run(Notes, (session) => {
      session?.namespace('other').set('notes', 1);
      return session?.namespace('other').get('notes');
    });
    expect(said).toBe(1);
  });
});

describe('a schema of sessions', () => {
  it('get returns undefined for stored state of an earlier schema that does not fit', async () => {
    const at = STAGES[0];
    const store = memoryStore();
    const options = (schema?: typeof Notes) => ({ store, sessions: { mode: 'stored' as const, schema } });
    const before = makeServer((session) => session?.set('notes', 'one'), options());
    const client = await connect(before.valise, at);
    const session = await client.create();
    await client.in(session);
    const after = makeServer(
      (session) => [session?.get('notes') ?? 'unfit', session?.has('notes')],
      options(Notes),
    );
    const next = await connect(after.valise, at);
    expect(JSON.parse(textOf(resultOf(await next.in(session))))).toEqual(['unfit', true]);
  });

  it('a schema of sessions is checked when it is declared', () => {
    expect(() =>
      createValise({ name: 'test', keys: 'ephemeral', sessions: { schema: {} as never } }),
    ).toThrow(/no Standard Schema/);
  });
});
