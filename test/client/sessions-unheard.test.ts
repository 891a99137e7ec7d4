import { Client } from '@modelcontextprotocol/client';
import { type ClientValise, openValise } from 'mcp-valise/client';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { NAMES } from 'mcp-valise/wire';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MAJORS } from '../server/majors.ts';
import { openSessionHost, type SessionHost, SPELLED } from './sessions-host.ts';

const URL = 'https://notes.example.com/mcp';
const UPDATED = 'notifications/resources/updated';

describe.each(SPELLED.slice(0, 3))(
  'a server that cannot be listened to, with a client of kind $kind',
  (kind) => {
    let host: SessionHost;
    let valise: ClientValise;
    const listen = NAMES[kind.era].method.listen;
    const asked = () => host.seen.filter(({ method }) => method === listen);
    const polled = () => asked().filter(({ meta }) => (meta['dev.valise/listen'] as { poll?: true })?.poll);

    beforeEach(async () => {
      host = await openSessionHost(kind);
      valise = await openValise({ store: memoryStore() });
    });
    afterEach(async () => {
      await valise.close();
      await host.close();
    });

    it('A client opens a stream a few times, then polls, and then reports the failure to the listener', async () => {
      const client = await host.connect(valise, URL);
      const session = await valise.sessions(client).create();
      await expect(session.listen(() => {})).rejects.toMatchObject({
        code: 'not-connected',
        message: expect.stringMatching(/ends every stream of notifications/),
      });
      expect([asked().length, polled().length]).toEqual([6, 1]);
      await client.close();
    });

    it('A client polls a server that ends each stream at once, and pauses if that server does not wait', async () => {
      host.answer = ({ method, meta }) =>
        method === listen && (meta['dev.valise/listen'] as { poll?: true })?.poll
          ? { notifications: [] }
          : {};
      const client = await host.connect(valise, URL);
      const session = await valise.sessions(client).create();
      const listening = await session.listen(() => {});
      const pauses = vi.spyOn(globalThis, 'setTimeout');
      await vi.waitFor(() => expect(polled().length).toBeGreaterThan(4), { timeout: 10_000 });
      expect(pauses.mock.calls.map(([, pause]) => pause)).toEqual(expect.arrayContaining([100, 200, 400]));
      pauses.mockRestore();
      await listening.close();
      await client.close();
    });
  },
);

describe.each(MAJORS)('a resource that is refused to one listener, by an SDK $major server', (major) => {
  const open = async (listens = true) => {
    const served = createValise({
      name: 'test',
      sessions: { mayListen: ({ resources }) => !resources.includes('secret://a') },
    });
    const [near, far] = major.Memory.createLinkedPair();
    await served.install(new major.McpServer({ name: 'test', version: '1.0.0' })).connect(far);
    const valise = await openValise({ store: memoryStore(), allowLocal: true });
    const client = new Client({ name: 'test', version: '1.0.0' });
    await valise.connect(client, near);
    const session = await valise.sessions(client).create();
    const heard: unknown[] = [];
    if (listens)
      await session.listen(({ params }) => heard.push(params?.['uri']), { resources: ['notes://a'] });
    const close = async () => {
      await client.close();
      await valise.close();
      await served.close();
    };
    return { served, session, heard, close };
  };

  it('A refused resource fails the listener that asked for it, and earlier listeners continue', async () => {
    const { served, session, heard, close } = await open();
    await expect(session.listen(() => {}, { resources: ['secret://a'] })).rejects.toMatchObject({
      rpcCode: -32600,
      data: { code: 'access-denied' },
      message: expect.stringMatching(/ Ask without the resources that are not for it\.$/),
    });
    await session.listen(({ params }) => heard.push(`two ${params?.['uri']}`), { resources: ['notes://b'] });
    for (const uri of ['notes://a', 'secret://a', 'notes://b']) await served.notify(UPDATED, { uri });
    await vi.waitFor(() => expect(heard).toHaveLength(4), { timeout: 5000 });
    expect(heard).toEqual(['notes://a', 'two notes://a', 'notes://b', 'two notes://b']);
    await close();
  });

  it('A refused resource does not affect a listener that starts at the same time', async () => {
    const { served, session, heard, close } = await open(false);
    const outcomes = await Promise.allSettled(
      ['secret://a', 'notes://a', 'secret://a', 'notes://b'].map((uri) =>
        session.listen(({ params }) => heard.push(`${uri} ${params?.['uri']}`), { resources: [uri] }),
      ),
    );
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected', 'fulfilled']);
    await served.notify(UPDATED, { uri: 'notes://b' });
    await vi.waitFor(() => expect(heard).toEqual(['notes://a notes://b', 'notes://b notes://b']), {
      timeout: 5000,
    });
    await close();
  });

  it('A refused resource fails every listener that asked for it, and no other that asked at the same time', async () => {
    const { served, session, heard, close } = await open();
    const wanted = ['notes://b', 'secret://a', 'secret://a', 'notes://c'];
    const outcomes = await Promise.allSettled(
      wanted.map((uri) => session.listen(() => {}, { resources: [uri] })),
    );
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
    for (const uri of ['notes://b', 'notes://c']) await served.notify(UPDATED, { uri });
    await vi.waitFor(() => expect(heard).toEqual(['notes://b', 'notes://c']), { timeout: 5000 });
    await close();
  });
});
