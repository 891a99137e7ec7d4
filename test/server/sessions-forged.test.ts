import { createHash } from 'node:crypto';
import { generateKey } from 'mcp-valise/seal';
import type { ServerValiseOptions } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { connect, count, errorOf, keys, makeServer, STAGES, type Wire } from './sessions-tool.ts';

type Record = { [name: string]: unknown };

/** Changes the session records in a store, as somebody could who has no keys. */
async function forge(store: Store, change: (record: Record) => Record): Promise<void> {
  let forged = 0;
  for (const key of (await store.list('sessions/')).keys) {
    if (!key.includes('/record/')) continue;
    const { value } = (await store.get(key))!;
    await store.put(key, change(value as Record) as never);
    forged++;
  }
  expect(forged).toBeGreaterThan(0);
}

/** Whose a record is, as the server writes it. */
const ownerOf = (user: string): string =>
  createHash('sha256')
    .update(JSON.stringify([null, user, null]))
    .digest('base64url');

describe.each(STAGES)('Stored sessions in a store that somebody else can write to, on $stage', (at) => {
  let user = 'ann';
  const start = async (options: Partial<ServerValiseOptions> = {}) => {
    const store = memoryStore();
    const make = (more: Partial<ServerValiseOptions> = {}) =>
      makeServer(count, {
        store,
        sessions: { mode: 'stored' },
        principal: () => (user === '' ? undefined : { subject: user }),
        ...options,
        ...more,
      });
    const { valise, rejected } = make();
    user = 'ann';
    const client = await connect(valise, at);
    const session = await client.create();
    expect((await client.use(session)).value).toBe(1);
    // The id alone, as somebody has it who reads it in the store.
    const stolen: Wire = { sessionId: session.sessionId };
    return { store, client, session, stolen, rejected, make };
  };

  it('a session does not change its principal if somebody writes another one into its record', async () => {
    const { store, client, session, stolen, rejected } = await start();
    await forge(store, (record) => ({ ...record, owner: ownerOf('eve') }));
    user = 'eve';
    expect(errorOf(await client.in(stolen))).toEqual(at.unknown(session));
    expect(rejected).not.toEqual([]);
  });

  it('a session does not become anonymous if somebody removes the principal from its record', async () => {
    const { store, client, session, stolen } = await start();
    await forge(store, (record) => ({ ...record, owner: null }));
    user = '';
    expect(errorOf(await client.in(stolen))).toEqual(at.unknown(session));
  });

  it('a session record without the server’s proof is refused', async () => {
    const { store, client, session } = await start();
    await forge(store, ({ proof: _, ...record }) => record);
    expect(errorOf(await client.in(session))).toEqual(at.unknown(session));
  });

  it('a session record with the proof of another session is refused', async () => {
    const { store, client, session } = await start();
    const other = await client.create();
    const [first, second] = await Promise.all(
      [session, other].map(async ({ sessionId }) => {
        const keys = (await store.list('sessions/')).keys.filter((key) => key.includes('/record/'));
        for (const key of keys) {
          const { value } = (await store.get(key))!;
          if ((value as Record)['id'] === sessionId) return { key, record: value as Record };
        }
        throw new Error('no record');
      }),
    );
    await store.put(first!.key, { ...first!.record, proof: second!.record['proof'] } as never);
    expect(errorOf(await client.in(session))).toEqual(at.unknown(session));
  });

  it('a session does not live longer if somebody changes the times in its record', async () => {
    const { store, client, session, stolen } = await start();
    const far = Date.now() + 1e11;
    await forge(store, (record) => ({ ...record, expires: far }));
    expect(errorOf(await client.in(stolen))).toEqual(at.unknown(session));
    await forge(store, (record) => ({ ...record, expires: far, until: far }));
    expect(errorOf(await client.in(stolen))).toEqual(at.unknown(session));
  });

  it('a session is not listed to a principal into whose index somebody copied it', async () => {
    const { store, client, session } = await start();
    const shelves = (await store.list('sessions/')).keys.filter((key) => key.includes('/index/'));
    const { value } = (await store.get(shelves[0]!))!;
    await store.put(shelves[0]!.replace(ownerOf('ann'), ownerOf('eve')), value);
    user = 'eve';
    expect(JSON.stringify(await client.request(at.method.list))).not.toContain(session.sessionId);
    user = 'ann';
    expect(JSON.stringify(await client.request(at.method.list))).toContain(session.sessionId);
  });

  it('a stored session survives a key rotation, also after the old key is dropped', async () => {
    const next = generateKey();
    const { session, make } = await start();
    const between = await connect(make({ keys: `${next},${keys}` }).valise, at);
    const used = await between.use(session);
    expect(used.value).toBe(2);
    const after = await connect(make({ keys: next }).valise, at);
    expect((await after.use(used.session ?? session)).value).toBe(3);
  });

  it('an instance with other keys answers a stored session with an internal error, not with session not found', async () => {
    const { client, session, stolen, make } = await start();
    const stranger = await connect(make({ keys: generateKey() }).valise, at);
    expect(errorOf(await stranger.in(stolen))).toMatchObject({ code: -32_603 });
    expect((await client.use(session)).value).toBe(2);
  });
});
