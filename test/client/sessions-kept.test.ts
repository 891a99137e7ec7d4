import { type ClientValise, openValise, type Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connect, setting, stateOf } from './hosts.ts';
import { openSessionHost, type SessionHost, saying, sessionOf } from './sessions-host.ts';

const NOTES = 'https://notes.example.com/mcp';
const tool = (name = 'work') => ({ name, arguments: {} });

let host: SessionHost;
let store: Store;
const opened: ClientValise[] = [];
beforeEach(async () => {
  host = await openSessionHost();
  store = memoryStore();
});
afterEach(async () => {
  for (const valise of opened.splice(0)) await valise.close();
  await host.close();
});

/** Another process of the same user, as far as the store is concerned. */
async function process(options: { principal?: string } = {}): Promise<ClientValise> {
  const valise = await openValise({ store, ...options });
  opened.push(valise);
  return valise;
}

describe('stored sessions', () => {
  it('[S-06] A later process finds a stored session by its label, with the latest state', async () => {
    const one = await process();
    const session = await one.sessions(await host.connect(one, NOTES)).named('refactor');
    host.answer = () => saying('legacy', { sessionId: 'sess-1', state: 'later' }, 7);
    const client = await host.connect(one, NOTES);
    await session.run(() => client.callTool(tool()));
    host.answer = () => ({});

    const two = await process();
    const other = await host.connect(two, NOTES);
    const found = await two.sessions(other).named('refactor');
    expect([found.id, found.label]).toEqual(['sess-1', 'refactor']);
    await found.run(() => other.callTool(tool()));
    expect(sessionOf(host.last().meta)).toEqual({ sessionId: 'sess-1', state: 'later' });
  });

  it('A stored session is found again even if the store does not release the lease of its creation', async () => {
    const lease = store.lease.bind(store);
    store.lease = async (key, ttl) => {
      const taken = await lease(key, ttl);
      return taken && { ...taken, renew: taken.renew, release: () => Promise.reject(new Error('no store')) };
    };
    const valise = await process();
    const sessions = valise.sessions(await host.connect(valise, NOTES));
    expect(await sessions.named('refactor')).toMatchObject({ id: 'sess-1', label: 'refactor' });
  });

  it('Sessions with a label are stored by default', async () => {
    const valise = await process();
    const sessions = valise.sessions(await host.connect(valise, NOTES));
    await sessions.create();
    await sessions.create({ label: 'a' });
    await sessions.create({ label: 'b', keep: false });
    await sessions.create({ keep: true });
    expect((await valise.sessions.kept()).map(({ id, label }) => [id, label]).sort()).toEqual([
      ['sess-2', 'a'],
      ['sess-4', undefined],
    ]);
  });

  it('[S-05] A stored session is not sent to another server or for another user', async () => {
    const ann = await process({ principal: 'ann' });
    const client = await host.connect(ann, NOTES);
    const session = await ann.sessions(client).named('refactor');
    for (const url of [
      'https://notes.example.com/other',
      'https://example.com/mcp',
      'http://notes.example.com/mcp',
    ]) {
      const elsewhere = await host.connect(ann, url);
      await session.run(() => elsewhere.callTool(tool()));
      expect(sessionOf(host.last('tools/call').meta)).toBeUndefined();
      expect((await ann.sessions(elsewhere).named('refactor')).id).not.toBe('sess-1');
    }
    const bob = await process({ principal: 'bob' });
    const bobs = await host.connect(bob, NOTES);
    expect(await bob.sessions.kept()).toEqual([]);
    expect((await bob.sessions(bobs).named('refactor')).id).not.toBe('sess-1');
    await session.run(() => bobs.callTool(tool()));
    expect(sessionOf(host.last('tools/call').meta)).toBeUndefined();
    expect((await ann.sessions(client).named('refactor')).id).toBe('sess-1');
  });

  it('[S-05] A session record that was moved to another key is ignored', async () => {
    const ann = await process();
    await ann.sessions(await host.connect(ann, NOTES)).create({ label: 'x' });
    const other = await ann
      .sessions(await host.connect(ann, 'https://evil.example.net/mcp'))
      .create({ label: 'y' });
    const { keys } = await store.list('kept-sessions/');
    const entries = await Promise.all(
      keys.map(async (key) => ({ key, value: (await store.get(key))?.value })),
    );
    const mine = entries.find(({ value }) => JSON.stringify(value).includes('notes.example.com'));
    const evil = entries.find(({ value }) => JSON.stringify(value).includes('evil.example.net'));
    await store.put(evil!.key, mine!.value!);
    const later = await process();
    const found = await later.sessions(await host.connect(later, 'https://evil.example.net/mcp')).named('x');
    expect([found.id === 'sess-1', found.id === other.id]).toEqual([false, false]);
  });

  it('Several processes that ask for one label at the same time create one session', async () => {
    const found = await Promise.all(
      [1, 2, 3, 4].map(async () => {
        const valise = await process();
        return valise.sessions(await host.connect(valise, NOTES)).named('refactor');
      }),
    );
    expect(new Set(found.map(({ id }) => id))).toEqual(new Set(['sess-1']));
  });

  it('[S-21] The store has the later state, whichever process writes first', async () => {
    const [one, two] = [await process(), await process()];
    const [a, b] = [await host.connect(one, NOTES), await host.connect(two, NOTES)];
    const sessionA = await one.sessions(a).named('refactor');
    const sessionB = await two.sessions(b).named('refactor');
    const answer = (seq: number) => {
      host.answer = () => saying('legacy', { sessionId: 'sess-1', state: `state-${seq}` }, seq);
    };
    answer(5);
    await sessionA.run(() => a.callTool(tool()));
    answer(3);
    await sessionB.run(() => b.callTool(tool()));
    host.answer = () => ({});
    // Its own answer was older than what the other process has kept: it goes on from that.
    await sessionB.run(() => b.callTool(tool()));
    expect(sessionOf(host.last().meta)?.state).toBe('state-5');
    const three = await process();
    const c = await host.connect(three, NOTES);
    await (await three.sessions(c).named('refactor')).run(() => c.callTool(tool()));
    expect(sessionOf(host.last().meta)?.state).toBe('state-5');
  });

  it('[S-14] A session that is gone is deleted from the store', async () => {
    const one = await process();
    const client = await host.connect(one, NOTES);
    const session = await one.sessions(client).named('refactor');
    host.known.clear();
    await expect(session.run(() => client.callTool(tool()))).rejects.toThrow();
    const two = await process();
    expect(await two.sessions.kept()).toEqual([]);
    expect((await two.sessions(await host.connect(two, NOTES)).named('refactor')).id).toBe('sess-2');
  });

  it('Stored sessions of all servers can be listed and forgotten', async () => {
    const valise = await process();
    await valise.sessions(await host.connect(valise, NOTES)).create({ label: 'a' });
    await valise.sessions(await host.connect(valise, 'https://other.example.org/mcp')).create({ label: 'b' });
    const kept = await valise.sessions.kept();
    expect(kept.map(({ target, label }) => [target, label]).sort()).toEqual([
      [NOTES, 'a'],
      ['https://other.example.org/mcp', 'b'],
    ]);
    expect(kept[0]).toMatchObject({ isStale: false, usedAt: expect.any(Date) });
    expect(JSON.stringify(kept)).not.toContain('sess-1:0');
    expect(await valise.sessions.forget('sess-1')).toBe(true);
    expect(await valise.sessions.forget('sess-1')).toBe(false);
    expect(await valise.sessions.kept()).toHaveLength(1);
  });

  it('A stored session is resumed with its state, without the server if that has no sessions/resume', async () => {
    const one = await process();
    await one.sessions(await host.connect(one, NOTES)).create({ label: 'a' });
    const two = await process();
    const client = await host.connect(two, NOTES);
    host.without.add('resume');
    const resumed = await two.sessions(client).resume('sess-1');
    expect(resumed.label).toBe('a');
    await resumed.run(() => client.callTool(tool()));
    expect(sessionOf(host.last().meta)).toEqual({ sessionId: 'sess-1', state: 'sess-1:0' });
  });
});

describe('session-scope state of the jar', () => {
  it('[S-05] Session-scope state is separate for each session and ends with it', async () => {
    const valise = await process();
    const client = await connect(valise, host, NOTES);
    const [a, b] = [
      await valise.sessions(client).create({ label: 'a' }),
      await valise.sessions(client).create(),
    ];
    const call = () => client.callTool(tool());
    host.answer = () => setting('legacy', { session: { cart: 'a' } });
    await a.run(call);
    host.answer = () => ({});
    await a.run(call);
    expect(stateOf(host.last().meta).session).toEqual({ cart: 'a' });
    await b.run(call);
    expect(stateOf(host.last().meta).session).toBeUndefined();
    await call();
    expect(stateOf(host.last().meta).session).toBeUndefined();
    const later = await process();
    const other = await connect(later, host, NOTES);
    const found = await later.sessions(other).named('a');
    await found.run(() => other.callTool(tool()));
    expect(stateOf(host.last().meta).session).toEqual({ cart: 'a' });
    await found.delete();
    expect(later.jar.list().filter(({ scope }) => scope === 'session')).toEqual([]);
  });
});
