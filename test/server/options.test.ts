import { createValise } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { MAJORS } from './majors.ts';

describe('createValise', () => {
  it.each([undefined, {}, { name: '' }, { name: 7 }])('wants a name: %j', (options) => {
    expect(() => createValise(options as never)).toThrow(/without a name.*createValise\(\{ name/);
  });

  it.each([{}, null, () => true])('takes no schema that is none: %s', (schema) => {
    const options = { name: 'test', state: { session: { cart: { schema } } } };
    expect(() => createValise(options as never)).toThrow(/schema of state "cart" is no Standard Schema/);
    expect(() => createValise({ name: 'test' }).key('cart', { schema } as never)).toThrow(/"cart"/);
  });
});

describe.each(MAJORS)('install ($major)', ({ McpServer, Memory }) => {
  const valise = createValise({ name: 'test', store: 'memory:' });

  it('is refused once the server is connected', async () => {
    const server = new McpServer({ name: 'test', version: '1.0.0' });
    await server.connect(Memory.createLinkedPair()[0]);
    expect(() => valise.install(server)).toThrow(/connected already.*before server\.connect/);
  });

  it('is refused on what is no server', () => {
    expect(() => valise.install({} as never)).toThrow(expect.objectContaining({ code: 'not-a-server' }));
  });
});
