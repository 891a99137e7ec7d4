import { describe, expect, it } from 'vitest';
import { MAJORS } from './majors.ts';
import { textOf } from './raw-client.ts';
import { SERVER, SESSION, serverOf, sessionOf, tool } from './state-tool.ts';

describe('sealed state', () => {
  const major = MAJORS[1];
  const keys = { keys: 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q' };

  it('sealed state is unreadable on the wire and comes back unchanged', async () => {
    const secret = { items: ['a secret'], __proto__x: [1, null, true] };
    const client = await tool(major, ({ session }) => {
      const before = session.get('Cart Contents');
      session.set('Cart Contents', secret);
      return before;
    });
    const { 'Cart Contents': token } = sessionOf(await client.call('work')) as { 'Cart Contents': string };
    expect(token).toMatch(/^v1\.[\w-]+\.[\w-]+$/);
    expect(Buffer.from(token, 'base64url').toString()).not.toContain('secret');
    const back = await client.call('work', {}, { [SESSION]: { 'Cart Contents': token } });
    expect(JSON.parse(textOf(back))).toEqual(secret);
  });

  it('sealed state opens on every instance that has the keys', async () => {
    const one = await tool(major, ({ server }) => server.set('n', 41), keys);
    const other = await tool(major, ({ server }) => server.get('n'), keys);
    const { n } = serverOf(await one.call('work')) as { n: string };
    expect(textOf(await other.call('work', {}, { [SERVER]: { n } }))).toBe('41');
  });

  it('sealed state is still read after its key was declared plain', async () => {
    const one = await tool(major, ({ server }) => server.set('n', 41), keys);
    const plain = { ...keys, jar: { server: { n: { plain: true } } } };
    const other = await tool(major, ({ server }) => server.get('n'), plain);
    const { n } = serverOf(await one.call('work')) as { n: string };
    expect(textOf(await other.call('work', {}, { [SERVER]: { n } }))).toBe('41');
    expect(textOf(await other.call('work', {}, { [SERVER]: { n: 'v1.2.3' } }))).toBe('"v1.2.3"');
    expect(other.rejected).toEqual([]);
    await other.call('work', {}, { [SERVER]: { n: `${n.slice(0, -4)}AAAA` } });
    expect(other.rejected).toHaveLength(1);
  });

  it('sealed state expires with the maxAge of its key, and after 400 days at most', async () => {
    const { createSealer } = await import('mcp-valise/seal');
    const sealer = createSealer({ ...keys, audience: 'test' });
    const client = await tool(
      major,
      ({ server }) => {
        server.set('long', 1);
        server.set('short', 1);
      },
      { ...keys, jar: { server: { short: { maxAge: '1d' } } } },
    );
    const { long, short } = serverOf(await client.call('work')) as { long: string; short: string };
    const days = (token: string) => {
      const { issuedAt, expiresAt } = sealer.describe(token);
      return (expiresAt.getTime() - issuedAt.getTime()) / 86_400_000;
    };
    expect([days(long), days(short)]).toEqual([400, 1]);
  });

  it.each([
    ['under another name', ({ a }: Record<string, string>) => ({ [SESSION]: { b: a } })],
    ['in the other scope', ({ a }: Record<string, string>) => ({ [SERVER]: { a } })],
    ['altered', ({ a = '' }: Record<string, string>) => ({ [SESSION]: { a: `${a.slice(0, -2)}AA` } })],
    ['cut off', ({ a = '' }: Record<string, string>) => ({ [SESSION]: { a: a.slice(0, 40) } })],
    ['replaced by plain JSON', () => ({ [SESSION]: { a: { is: 'admin' } } })],
    ['replaced by other text', () => ({ [SESSION]: { a: 'admin' } })],
  ])(
    'sealed state that comes back %s counts as absent and is reported without its value',
    async (_how, forge) => {
      const client = await tool(major, ({ session, server }) => {
        const found = [session.keys(), server.keys()];
        session.set('a', 'the value');
        return found;
      });
      const sealed = sessionOf(await client.call('work')) as Record<string, string>;
      expect(textOf(await client.call('work', {}, forge(sealed)))).toBe('[[],[]]');
      expect(client.rejected).toHaveLength(1);
      expect(client.rejected[0]?.what).toMatch(/^(session|server) state "[ab]"$/);
      expect(JSON.stringify(client.rejected)).not.toMatch(/admin|the value/);
    },
  );

  it('sealed state that cannot be read can be deleted', async () => {
    const client = await tool(major, ({ session }) => session.delete('a'));
    expect(sessionOf(await client.call('work', {}, { [SESSION]: { a: 'garbage' } }))).toEqual({ a: null });
  });

  it('sealed state opens only for the principal that it was set for', async () => {
    const as = (subject: string | undefined) =>
      tool(
        major,
        ({ session }) => {
          const found = session.get('a') ?? null;
          session.set('a', 'mine');
          return found;
        },
        { ...keys, principal: () => (subject === undefined ? undefined : { subject }) },
      );
    const [ann, bob, nobody] = [await as('ann'), await as('bob'), await as(undefined)];
    const sealed = { [SESSION]: sessionOf(await ann.call('work')) };
    expect(textOf(await ann.call('work', {}, sealed))).toBe('"mine"');
    expect(textOf(await bob.call('work', {}, sealed))).toBe('null');
    expect(textOf(await nobody.call('work', {}, sealed))).toBe('null');
  });
});
