import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { connect, count, errorOf, makeServer, STAGES } from './sessions-tool.ts';

describe.each(STAGES)('stored sessions on $stage', (at) => {
  const { method, sent, unknown } = at;
  const open = async () => {
    const store = memoryStore();
    const { valise } = makeServer(count, {
      store,
      sessions: { mode: 'stored' },
      principal: () => ({ subject: 'ann' }),
    });
    const client = await connect(valise, at);
    /** Changes each record that has the field. */
    const damage = async (field: string, change: (value: never) => unknown): Promise<number> => {
      let changed = 0;
      for (const key of (await store.list('', { limit: 1000 })).keys) {
        const record = (await store.get(key))?.value as Record<string, never> | undefined;
        if (record?.[field] === undefined) continue;
        await store.put(key, { ...record, [field]: change(record[field]) as never });
        changed++;
      }
      return changed;
    };
    return { client, damage };
  };

  it('sessions are still listed, created and deleted if items of their index are damaged', async () => {
    const { client, damage } = await open();
    const session = await client.create();
    expect(
      // Lists hold pairs; a session's own record names the lists that it is in.
      await damage('places', (places: unknown[]) =>
        places.some(Array.isArray) ? [null, 0, ['x'], [{}, 1], ...places, 'y', ['z', '1']] : places,
      ),
    ).toBeGreaterThan(0);
    const listed = await client.request(method.list);
    expect(JSON.stringify(listed)).toContain(session.sessionId);
    const other = await client.create();
    for (const { sessionId } of [session, other])
      expect(await client.request(method.delete, { _meta: sent({ sessionId }) })).toHaveProperty('result');
  });

  it('a session is unknown if its record has an invalid time', async () => {
    const { client, damage } = await open();
    const session = await client.create();
    expect(await damage('until', () => 1e300)).toBeGreaterThan(0);
    expect(await damage('expires', () => 1e300)).toBeGreaterThan(0);
    expect(errorOf(await client.in(session))).toEqual(unknown(session));
  });
});
