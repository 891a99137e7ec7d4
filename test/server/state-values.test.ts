import { generateKey } from 'mcp-valise/seal';
import { createValise, ValiseError } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Meta } from '../../src/wire/index.ts';
import { MAJORS } from './majors.ts';
import { resultOf, textOf } from './raw-client.ts';
import { MODERN, metaOf, plain, SERVER, SESSION, sessionOf, tool } from './state-tool.ts';

describe('values', () => {
  const major = MAJORS[1];

  it.each([
    ['undefined', undefined],
    ['not a number', Number.NaN],
    ['a function', () => 1],
    ['a big integer', 1n],
    ['nested too deeply', JSON.parse(`${'['.repeat(65)}${']'.repeat(65)}`)],
    ['holding itself', Object.assign([], { 0: [] as unknown[] })],
  ])('set refuses a value that is not JSON: %s', async (how, value) => {
    if (how === 'holding itself') (value as unknown[]).push(value);
    const client = await tool(major, ({ session }) => session.set('a', value as never));
    const result = await client.call('work');
    expect(result).toMatchObject({ isError: true });
    expect(textOf(result)).toMatch(/state "a" is not JSON/);
    expect(metaOf(result)).toBeUndefined();
  });

  it.each([
    ['a text', 'x'.repeat(70_000)],
    ['a list', Array(40_000).fill(1)],
  ])(
    'a plain value of a client that is larger than any that can be set counts as absent: %s',
    async (_, large) => {
      const client = await tool(major, ({ session }) => session.keys(), {
        jar: { session: { a: { plain: true }, b: { plain: true } } },
      });
      expect(textOf(await client.call('work', {}, { [SESSION]: { a: large, b: 1 } }))).toBe('["b"]');
      expect(client.rejected).toMatchObject([
        { what: 'session state "a"', reason: 'is larger than can be set' },
      ]);
    },
  );

  class Cart {
    readonly items = ['tea'];
  }
  it.each([
    ['price is NaN', { price: Number.NaN }],
    ['items[1].price is Infinity', { items: [1, { price: Number.POSITIVE_INFINITY }] }],
    ['items[1] is undefined', { items: [1, undefined] }],
    ['items[0] is undefined', { items: new Array(1) }],
    ['["total price"].x is a bigint', { 'total price': { x: 1n } }],
    ['when is an object of type Date', { when: new Date(0) }],
    ['seen is an object of type Map', { seen: new Map([[1, 2]]) }],
    ['seen is an object of type Set', { seen: new Set() }],
    ['bytes is an object of type Uint8Array', { bytes: new Uint8Array(2) }],
    ['done is a function', { done: () => 1 }],
    ['mark is a symbol', { mark: Symbol('x') }],
    ['it is an object of type Date', new Date(0)],
    [
      'it is something that cannot be read',
      {
        get a() {
          throw new Error('no');
        },
      },
    ],
  ])('set refuses a value that JSON would change, and names the place: %s', async (where, value) => {
    const client = await tool(major, ({ session }) => session.set('a', value as never));
    const result = await client.call('work');
    expect(textOf(result)).toContain(`The value for state "a" is not JSON: ${where}.`);
    expect(metaOf(result)).toBeUndefined();
  });

  it('a value comes back as its JSON: undefined properties are left out, and instances become plain objects', async () => {
    const client = await tool(
      major,
      ({ session }) => {
        session.set('a', {
          cart: new Cart(),
          none: undefined,
          nothing: null,
          bare: Object.create(null),
        } as never);
        return session.get('a');
      },
      plain,
    );
    const held = { cart: { items: ['tea'] }, nothing: null, bare: {} };
    expect(JSON.parse(textOf(await client.call('work')))).toEqual(held);
  });

  it('a value with a schema may be anything that JSON can write and the schema reads', async () => {
    const schema = z.object({ when: z.coerce.date() });
    const client = await tool(
      major,
      ({ session }) => {
        session.set('visit', { when: new Date(86_400_000) } as never);
        return (session.get('visit') as unknown as { when: Date }).when.getTime();
      },
      { ...plain, jar: { session: { visit: { plain: true, schema } } } },
    );
    const result = await client.call('work');
    expect(textOf(result)).toBe('86400000');
    expect(sessionOf(result)).toEqual({ visit: { when: '1970-01-02T00:00:00.000Z' } });
  });

  it.each([
    ['when is an object of type Date', { when: new Date(Number.NaN) }],
    ['it is an object of type Object', { toJSON: () => undefined }],
    ['price is NaN', { toJSON: () => ({ price: Number.NaN }) }],
  ])('set refuses a value that JSON omits, also with a schema: %s', async (where, value) => {
    const schema = z.unknown();
    const client = await tool(major, ({ session }) => session.set('visit', value as never), {
      ...plain,
      jar: { session: { visit: { schema } } },
    });
    expect(textOf(await client.call('work'))).toContain(`The value for state "visit" is not JSON: ${where}.`);
  });

  it('set takes a snapshot of the value, and get returns it as in the next request', async () => {
    const client = await tool(
      major,
      ({ session }) => {
        const cart = { items: ['tomato'], price: undefined };
        session.set('Cart Contents', cart as never);
        cart.items.push('later');
        return session.get('Cart Contents');
      },
      plain,
    );
    const result = await client.call('work');
    expect(JSON.parse(textOf(result))).toEqual({ items: ['tomato'] });
    expect(sessionOf(result)).toEqual({
      'Cart Contents': { items: ['tomato'] },
    });
  });

  it.each(['any', 'read by a schema'])(
    'changing an object that get returned does not change the state: %s',
    async (how) => {
      const schema = z.any();
      const client = await tool(
        major,
        ({ session }) => {
          session.set('list', ['kept']);
          (session.get('list') as string[]).push('sneaked');
        },
        { ...plain, jar: { session: { list: { plain: true, ...(how !== 'any' && { schema }) } } } },
      );
      expect(sessionOf(await client.call('work'))).toEqual({ list: ['kept'] });
    },
  );

  it.each([
    ['any', {}],
    ['sealed', { plain: false }],
    ['read by a schema', { schema: z.object({ items: z.array(z.coerce.date()) }) }],
  ])('each get returns a new copy: %s', async (_, settings) => {
    const client = await tool(
      major,
      ({ session }) => {
        const seen: number[] = [];
        const look = (): void => {
          const visits = session.get('visits') as unknown as { items: unknown[] } | undefined;
          seen.push(session.has('visits') ? (visits?.items.length ?? -1) : 0);
          visits?.items.push(visits.items[0]);
        };
        look();
        look();
        session.set('visits', { items: ['1970-01-02T00:00:00.000Z'] } as never);
        look();
        look();
        session.delete('visits');
        look();
        session.set('visits', { items: ['1970-01-02T00:00:00.000Z'] } as never);
        return seen;
      },
      { keys: generateKey(), jar: { session: { visits: { plain: true, ...settings } } } },
    );
    const first = await client.call('work');
    expect(JSON.parse(textOf(first))).toEqual([0, 0, 1, 1, 0]);
    const again = await client.call('work', {}, { [SESSION]: sessionOf(first) });
    expect(JSON.parse(textOf(again))).toEqual([1, 1, 1, 1, 0]);
    expect(client.rejected).toEqual([]);
  });

  it('a value that does not fit is reported once, however often it is read', async () => {
    const client = await tool(
      major,
      ({ session }) => [session.get('n'), session.has('n'), session.get('n'), session.keys()],
      { jar: { session: { n: { plain: true, schema: z.object({}) } } } },
    );
    const result = await client.call('work', {}, { [SESSION]: { n: 'text' } });
    expect(JSON.parse(textOf(result))).toEqual([null, false, null, []]);
    expect(client.rejected).toHaveLength(1);
  });

  it('set throws for values over 64 KiB, and warns once for values over 4,096 bytes', async () => {
    const warnings: string[] = [];
    const client = await tool(
      major,
      ({ session }) => {
        session.set('big', 'x'.repeat(4094));
        session.set('ok', 'x'.repeat(4092));
        session.set('huge', 'x'.repeat(65_536));
      },
      {
        keys: 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q',
        events: { warning: ({ what }) => warnings.push(what) },
        jar: { session: { big: { plain: true }, ok: { plain: true } } },
      },
    );
    for (let times = 0; times < 2; times++) {
      const result = await client.call('work');
      expect(textOf(result)).toMatch(/"huge" would take 65542 bytes; 65536 is the most/);
      expect(Object.keys(sessionOf(result) ?? {})).toEqual(['big', 'ok']);
    }
    expect(warnings.filter((what) => !what.includes('"huge"'))).toEqual([
      expect.stringMatching(/^State "big" takes 4099 bytes/),
    ]);
  });

  it('state may be named like a member of Object.prototype', async () => {
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '', 'é漢🎒'];
    const client = await tool(major, ({ session }) => {
      const before = names.map((name) => session.get(name) ?? null);
      for (const name of names) session.set(name, { of: name });
      return before;
    });
    const first = await client.call('work');
    expect(JSON.parse(textOf(first))).toEqual(names.map(() => null));
    expect(Object.keys(sessionOf(first) ?? {}).sort()).toEqual([...names].sort());
    const again = await client.call('work', {}, { [SESSION]: sessionOf(first) });
    expect(JSON.parse(textOf(again))).toEqual(names.map((of) => ({ of })));
    expect(({} as Record<string, unknown>)['of']).toBeUndefined();
  });
});

describe('the request', () => {
  const major = MAJORS[1];

  it('valise.jar throws outside of a request', () => {
    const { jar } = createValise({ name: 'test' });
    expect(() => jar.session).toThrow(expect.objectContaining({ code: 'outside-request' }));
  });

  it('set throws after the request has been answered', async () => {
    let late: (() => void) | undefined;
    const client = await tool(major, ({ session }) => {
      late = () => session.set('a', 1);
    });
    await client.call('work');
    expect(late).toThrow(expect.objectContaining({ code: 'outside-request' }));
  });

  it('parallel requests each have their own state', async () => {
    const open: (() => void)[] = [];
    const client = await tool(
      major,
      async ({ session }) => {
        await new Promise<void>((resolve) => open.push(resolve));
        const mine = session.get('Coupon Code');
        session.set('Coupon Code', `${mine}!`);
      },
      plain,
    );
    const calls = ['a', 'b', 'c'].map((of) => client.call('work', {}, { [SESSION]: { 'Coupon Code': of } }));
    await expect.poll(() => open.length).toBe(3);
    for (const release of open.reverse()) release();
    expect((await Promise.all(calls)).map(sessionOf)).toEqual(
      ['a!', 'b!', 'c!'].map((code) => ({ 'Coupon Code': code })),
    );
  });

  it('[J-25] a request is served whatever its state looks like', async () => {
    const deep = JSON.parse(`${'{"a":'.repeat(200)}1${'}'.repeat(200)}`);
    const bad: Meta[] = [
      { [SESSION]: 'text' },
      { [SESSION]: ['list'] },
      { [SESSION]: null },
      { [SERVER]: 7 },
      { [MODERN]: [] },
      { [SESSION]: { 'Cart Contents': deep } },
      { [SESSION]: Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`k${n}`, n])) },
    ];
    const client = await tool(major, ({ session, server }) => [session.keys(), server.keys()], plain);
    for (const meta of bad) expect(textOf(await client.call('work', {}, meta))).toBe('[[],[]]');
    expect(client.rejected.length).toBeGreaterThan(4);
  });
});

describe('settings', () => {
  it('createValise warns of a generated key, also if the listener is added right after', async () => {
    const heard: string[] = [];
    const valise = createValise({ name: 'test', events: { warning: ({ what }) => heard.push(`1 ${what}`) } });
    const off = valise.on('warning', ({ what, next }) => heard.push(`2 ${what} ${next}`));
    await Promise.resolve();
    off();
    expect(heard).toEqual([
      expect.stringMatching(/^1 There are no keys/),
      expect.stringMatching(/^2 There are no keys.*VALISE_KEYS/),
    ]);
  });

  it('createValise refuses invalid keys', () => {
    expect(() => createValise({ name: 'test', keys: 'short' })).toThrow(ValiseError);
  });

  it('a store given as a URL is opened on first use, and closed with the Valise', async () => {
    const valise = createValise({ name: 'test', store: 'file:/dev/null/state.json' });
    await expect(valise.close()).resolves.toBeUndefined();
    const warnings: string[] = [];
    const client = await tool(
      MAJORS[1],
      ({ session }) => session.set('a', 1),
      {
        store: 'file:/dev/null/state.json',
        events: { warning: ({ what }) => void warnings.push(what) },
      },
      {},
    );
    const answer = await client.request('tools/call', { name: 'work', arguments: {} });
    expect(answer).toMatchObject({ error: { code: -32603, message: expect.not.stringContaining('/dev') } });
    expect(warnings).toContainEqual(expect.stringContaining('/dev/null could not be written'));
    expect(resultOf(await client.request('tools/list'))['tools']).toHaveLength(1);
  });
});
