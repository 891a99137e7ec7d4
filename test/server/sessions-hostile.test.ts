import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  connect,
  count,
  errorOf,
  keys,
  makeServer,
  type SessionClient,
  STAGES,
  type Wire,
} from './sessions-tool.ts';

const MODES = [
  { mode: 'sealed', where: 'no store', store: () => undefined },
  { mode: 'sealed', where: 'a store', store: memoryStore },
  { mode: 'stored', where: 'a store', store: memoryStore },
] as const;

afterEach(() => void vi.useRealTimers());

const MATRIX = STAGES.flatMap((at) => MODES.map((mode) => ({ ...mode, at, stage: at.stage })));

describe.each(MATRIX)('$mode sessions with $where, on $stage', ({ mode, store, at }) => {
  const { method, sent, unknown } = at;
  let user = 'ann';
  const open = async (name = 'test', shared = store()) => {
    const options = { name, store: shared, sessions: { mode }, principal: () => ({ subject: user }) };
    const made = makeServer(count, options);
    return { ...made, client: await connect(made.valise, at) };
  };
  const altered = (text: string, at: number) => {
    const other = text[at] === 'A' ? 'B' : 'A';
    return text.slice(0, at) + other + text.slice(at + 1);
  };
  const expectUnknown = async (client: SessionClient, session: Wire) =>
    expect(errorOf(await client.in(session))).toEqual(unknown(session));

  it('[S-13] [S-19] a forged, truncated or altered session is unknown, and no handler runs', async () => {
    const { client, ran, rejected } = await open();
    const real = await client.create();
    const state = real.state as string;
    const bad: Wire[] = [
      { sessionId: 'sess-forged', state },
      { sessionId: altered(real.sessionId, 10), state },
      { sessionId: real.sessionId.slice(0, -1), state },
      { ...real, state: 'forged' },
      { ...real, state: '' },
      { ...real, state: state.slice(0, -1) },
      { ...real, state: `${state}A` },
      { ...real, state: altered(state, state.length - 5) },
      { ...real, state: altered(state, 20) },
      { ...real, state: 'A'.repeat(3_000_000) },
    ];
    for (const session of bad) await expectUnknown(client, session);
    expect(ran()).toBe(0);
    expect(rejected).toHaveLength(bad.length);
    expect(JSON.stringify(rejected)).not.toContain(real.sessionId);
    expect((await client.use(real)).value).toBe(1);
  });

  it('[S-19] a session with the state of another session is unknown', async () => {
    const { client, ran } = await open();
    const [a, b] = [await client.create(), await client.create()];
    await expectUnknown(client, { ...a, state: b.state as string });
    await expectUnknown(client, { ...b, state: a.state as string });
    expect(ran()).toBe(0);
  });

  it('[S-13] [S-19] a session of another principal is answered as unknown, whatever is requested', async () => {
    const { client, ran } = await open();
    user = 'ann';
    const anns = await client.create();
    user = 'bob';
    await expectUnknown(client, anns);
    await expectUnknown(client, { sessionId: anns.sessionId });
    for (const asked of [method.delete, method.resume, method.recover, method.fork, method.listen]) {
      for (const session of [anns, { sessionId: anns.sessionId }])
        expect(errorOf(await client.request(asked, { _meta: sent(session) }))).toEqual(unknown(anns));
    }
    expect(ran()).toBe(0);
    user = 'ann';
    expect((await client.use(anns)).value).toBe(1);
  });

  it('[S-19] a session of another server with the same keys and store is unknown', async () => {
    const shared = store();
    const [one, other] = [await open('one', shared), await open('other', shared)];
    const session = await one.client.create();
    await expectUnknown(other.client, session);
    expect(other.ran()).toBe(0);
    expect((await one.client.use(session)).value).toBe(1);
  });

  it('[S-13] [S-14] an expired session is unknown', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { client, ran } = await open();
    const session = await client.create();
    vi.setSystemTime(Date.now() + 4 * 3600_000 - 1000);
    expect((await client.use(session)).value).toBe(1);
    vi.setSystemTime(Date.now() + 30 * 86_400_000);
    await expectUnknown(client, session);
    expect(ran()).toBe(1);
  });

  it('[S-13] [S-15] a deleted session is unknown if somebody replays it', async () => {
    const { client, ran } = await open();
    const session = await client.create();
    const later = (await client.use(session)).session;
    await client.request(method.delete, { _meta: sent(later) });
    await expectUnknown(client, session);
    await expectUnknown(client, later);
    expect(ran()).toBe(1);
  });
});

describe.each(STAGES)('shared and revoked sessions, on $stage', (at) => {
  const { method, code, sent } = at;

  it('[S-33] [S-34] a sealed session is served by any instance with the keys, without a store', async () => {
    const options = { sessions: { mode: 'sealed' as const } };
    const [one, two] = [makeServer(count, options), makeServer(count, options)];
    const [a, b] = [await connect(one.valise, at), await connect(two.valise, at)];
    let session = await a.create();
    for (const [client, value] of [
      [b, 1],
      [a, 2],
      [b, 3],
    ] as const) {
      const used = await client.use(session);
      expect(used.value).toBe(value);
      session = used.session;
    }
    const stranger = makeServer(count, { ...options, keys: keys.replace('T0', 'U1') });
    const c = await connect(stranger.valise, at);
    // The fault of that instance: the session lives on at the others.
    expect(errorOf(await c.in(session)).code).toBe(-32603);
    expect(stranger.ran()).toBe(0);
  });

  it('[S-13] [S-15] deletion and revocation reach every instance at once if they share a store', async () => {
    for (const mode of ['sealed', 'stored'] as const) {
      const options = { store: memoryStore(), sessions: { mode } };
      const [one, two] = [makeServer(count, options), makeServer(count, options)];
      const [a, b] = [await connect(one.valise, at), await connect(two.valise, at)];
      const [deleted, revoked] = [await a.create(), await a.create()];
      expect((await b.use(deleted)).value).toBe(1);
      const { session } = await b.use(revoked);
      await a.request(method.delete, { _meta: sent(deleted) });
      expect(errorOf(await b.in(deleted)).code).toBe(code.notFound);
      await one.valise.sessions.revoke(revoked.sessionId);
      expect(errorOf(await b.in(session)).code).toBe(code.notFound);
    }
  });

  it('[S-19] the sealed state of a session does not reveal its values', async () => {
    for (const mode of ['sealed', 'stored'] as const) {
      const made = makeServer((session) => session?.set('colour', 'vermilion'), {
        store: memoryStore(),
        sessions: { mode },
        principal: () => ({ subject: 'ann@example.com' }),
      });
      const client = await connect(made.valise, at);
      const { session } = await client.use(await client.create({ hints: { label: 'secret plan' } }));
      const seen = ['utf8', 'base64', 'base64url', 'hex'].map((coding) =>
        Buffer.from(session.state as string, coding as BufferEncoding).toString('latin1'),
      );
      for (const word of ['colour', 'vermilion', 'ann@example.com', 'secret plan', session.sessionId])
        expect(seen.join()).not.toContain(word);
    }
  });
});
