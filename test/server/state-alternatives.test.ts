import { describe, expect, it } from 'vitest';
import { MAJORS } from './majors.ts';
import { textOf } from './raw-client.ts';
import { metaOf, SERVER, SESSION, tool } from './state-tool.ts';

const KEYS = { session: { cart: { plain: true } }, server: { cart: { plain: true } } };

describe.each(MAJORS)('alternatives that draft 000 rejects, on a server of SDK $major', (major) => {
  it.each([
    ['J-27', 'one key with an attribute for the scope', 'modelcontextprotocol.io/state'],
    ['J-28', '_meta.state', 'state'],
  ])('[%s] a server neither reads nor writes %s', async (_row, _what, key) => {
    const work = ({ session, server }: Parameters<Parameters<typeof tool>[1]>[0]) => {
      const read = [session.get('cart') ?? null, server.get('cart') ?? null];
      session.set('cart', 1);
      server.set('cart', 2);
      return read;
    };
    const client = await tool(major, work, { jar: KEYS });
    const other = { cart: 'other', session: { cart: 'other' }, server: { cart: 'other' } };
    const result = await client.call('work', {}, { [key]: other });
    expect(textOf(result)).toBe('[null,null]');
    expect(metaOf(result)).toEqual({ [SESSION]: { cart: 1 }, [SERVER]: { cart: 2 } });
    expect(client.rejected).toEqual([]);
    await client.close();
  });

  it('[J-30] a server has no methods to get or set state', async () => {
    const client = await tool(major, () => null, { jar: KEYS });
    for (const method of ['state/get', 'state/set', 'GetState', 'SetState'])
      expect(await client.request(method, { key: 'cart', value: 1 })).toMatchObject({
        error: { code: -32601 },
      });
    await client.close();
  });
});
