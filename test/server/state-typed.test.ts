import { createValise } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { MAJORS } from './majors.ts';
import { rawClient, textOf } from './raw-client.ts';
import { ATTRIBUTES, metaOf, SESSION, tool } from './state-tool.ts';

const Cart = z.object({ items: z.array(z.string()), price: z.number() });

describe('typed keys', () => {
  const major = MAJORS[1];
  const declared = { jar: { session: { 'Cart Contents': { schema: Cart, plain: true } } } };

  it('get returns a value that fits the schema of its key', async () => {
    const client = await tool(major, ({ session }) => session.get('Cart Contents'), declared);
    const cart = { items: ['tomato'], price: 3 };
    expect(
      JSON.parse(textOf(await client.call('work', {}, { [SESSION]: { 'Cart Contents': cart } }))),
    ).toEqual(cart);
    expect(client.rejected).toEqual([]);
  });

  it('a value that does not fit the schema counts as absent and is reported once', async () => {
    const client = await tool(
      major,
      ({ session }) => [session.has('Cart Contents'), session.get('Cart Contents') ?? null, session.keys()],
      declared,
    );
    const result = await client.call(
      'work',
      {},
      { [SESSION]: { 'Cart Contents': { items: 'secret text' } } },
    );
    expect(textOf(result)).toBe('[false,null,[]]');
    expect(client.rejected).toEqual([
      {
        family: 'jar',
        what: 'session state "Cart Contents"',
        reason: expect.stringMatching(/^does not fit its schema: items: /),
      },
    ]);
    expect(JSON.stringify(client.rejected)).not.toContain('secret text');
  });

  it.each(MAJORS)('a value on which the schema throws counts as absent too ($major)', async (each) => {
    const schema = z.string().transform((text) => JSON.parse(text) as unknown);
    const client = await tool(each, ({ session }) => session.get('list') ?? 'none', {
      jar: { session: { list: { schema, plain: true } } },
    });
    expect(textOf(await client.call('work', {}, { [SESSION]: { list: 'secret text' } }))).toBe('"none"');
    expect(client.rejected).toMatchObject([
      { reason: expect.stringMatching(/schema: it could not be read/) },
    ]);
    expect(JSON.stringify(client.rejected)).not.toContain('secret');
  });

  it('set refuses a value that would not fit the schema when it comes back', async () => {
    const client = await tool(
      major,
      ({ session }) => session.set('Cart Contents', { items: [1] } as never),
      declared,
    );
    const result = await client.call('work');
    expect(textOf(result)).toMatch(/"Cart Contents" does not fit its schema: items\.0/);
    expect(metaOf(result)).toBeUndefined();
  });

  it('a schema may transform the value that get returns', async () => {
    const when = z.iso.datetime().transform((text) => new Date(text));
    const client = await tool(
      major,
      ({ session }) => {
        const before = session.get('since') as unknown as Date | undefined;
        session.set('since', '2026-07-28T00:00:00Z');
        const after = session.get('since') as unknown as Date;
        return [before?.getUTCFullYear() ?? null, after.getUTCMonth()];
      },
      { jar: { session: { since: { schema: when, plain: true } } } },
    );
    expect(textOf(await client.call('work', {}, { [SESSION]: { since: '2025-11-25T00:00:00Z' } }))).toBe(
      '[2025,6]',
    );
  });

  it('valise.jar.key() declares a key at its point of use, and the key replaces its name', async () => {
    const valise = createValise({ name: 'test' });
    const coupon = valise.jar.key('Coupon Code', { schema: z.string().min(3), plain: true, maxAge: 60 });
    const server = valise.install(new major.McpServer({ name: 'test', version: '1.0.0' }));
    server.registerTool('work', { inputSchema: z.object({}) }, async () => {
      const { session } = valise.jar;
      const before = session.get(coupon);
      session.set(coupon, 'XYZZY');
      return {
        content: [{ type: 'text', text: `${before} ${session.has(coupon)} ${session.get('Coupon Code')}` }],
      };
    });
    const [near, far] = major.Memory.createLinkedPair();
    await server.connect(far);
    const client = await rawClient(near);
    const result = await client.call('work', {}, { [SESSION]: { 'Coupon Code': 'AB' } });
    expect(textOf(result)).toBe('undefined true XYZZY');
    expect(metaOf(result)).toEqual({
      [SESSION]: { 'Coupon Code': 'XYZZY' },
      [ATTRIBUTES]: { session: { 'Coupon Code': { 'max-age': 60 } } },
    });
  });

  it.each([
    ['plain', { plain: true }],
    ['maxAge', { maxAge: '2h' }],
    ['methodScope', { methodScope: 'tools/call' }],
    ['serverScope', { serverScope: 'example.com' }],
    ['schema', { schema: z.string() }],
  ])('a key cannot be declared twice with a different %s', (_, settings) => {
    const common = { maxAge: '1h', methodScope: 'tools' } as const;
    const other = { ...common, ...settings };
    const refused = expect.objectContaining({
      code: 'invalid-flow',
      message: expect.stringMatching(/^State "cart" is declared twice, with other settings\./),
    });
    const valise = createValise({ name: 'test' });
    valise.jar.key('cart', common);
    expect(() => valise.jar.key('cart', other)).toThrow(refused);
    // Servers are often built once per request, and their schemas with them.
    valise.jar.key('cart', { ...common, maxAge: 3600 });
    for (const scope of ['session', 'server']) {
      const declared = createValise({ name: 'test', jar: { [scope]: { cart: common } } });
      expect(() => declared.jar.key('cart', other)).toThrow(refused);
      declared.jar.key('cart', common);
    }
  });

  it('a key may be declared again with a new instance of its schema', () => {
    const valise = createValise({ name: 'test' });
    for (let times = 0; times < 2; times++) valise.jar.key('cart', { schema: z.string() });
  });

  it('a schema that validates asynchronously is refused', async () => {
    const schema = z.string().refine(async () => true);
    const client = await tool(major, ({ session }) => session.set('a', 'x'), {
      jar: { session: { a: { schema } } },
    });
    expect(textOf(await client.call('work'))).toContain('validates asynchronously');
  });

  const fails = () => {
    throw new Error('not for "secret"');
  };
  const standard = { '~standard': { version: 1, vendor: 'test', validate: fails } } as const;
  it.each([
    ['zod', z.any().transform(fails), /state "a".*asynchronously, or .* has thrown/],
    ['another', standard, /state "a" does not fit its schema: it could not be read/],
  ])('set refuses a value on which the schema throws (%s)', async (_, schema, words) => {
    const client = await tool(major, ({ session }) => session.set('a', 'secret'), {
      jar: { session: { a: { schema } } },
    });
    const refusal = textOf(await client.call('work'));
    expect(refusal).toMatch(words);
    expect(refusal).not.toContain('secret');
  });

  it.each([
    ['longer than 400 days', { maxAge: '401d' }, 'invalid-argument'],
    ['without a duration', { maxAge: 0 }, 'invalid-argument'],
    ['that is not a domain', { serverScope: 'a b' }, 'invalid-argument'],
    ['that is not a method', { methodScope: '/tools' }, 'invalid-argument'],
  ])('[J-19] an attribute %s is refused when it is declared', (_what, settings, code) => {
    expect(() => createValise({ name: 'test', jar: { session: { a: settings } } })).toThrow(
      expect.objectContaining({ code }),
    );
    expect(() => createValise({ name: 'test' }).jar.key('a', settings)).toThrow(
      expect.objectContaining({ code }),
    );
  });
});
