import { type ClientValise, openValise, SessionGoneError } from 'mcp-valise/client';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { commandOf, type Running, startHttp } from './example.ts';
import {
  type AnyClient,
  type Command,
  callText,
  type Host,
  makeClient,
  makeTransport,
  type Place,
} from './hosts.ts';
import { MATRIX } from './matrix.ts';

const keys = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';
const env = { VALISE_KEYS: keys };

describe.each(MATRIX)(
  'sessions of a $client client ($era) with a $server server over $over',
  ({ client: major, era, over, args }) => {
    const host = { client: major, era } as Host;
    let server: (Running & { readonly url: URL }) | undefined;
    let store: Store;
    let valise: ClientValise;
    const clients: AnyClient[] = [];
    const required = { code: era === 'legacy' ? -32044 : -31044 };
    beforeAll(async () => {
      if (over !== 'stdio') server = await startHttp('notebook', args, env);
    });
    afterAll(async () => void (await server?.stop('SIGTERM')));
    beforeEach(async () => {
      store = memoryStore();
      valise = await openValise({ store, allowLocal: true });
    });
    afterEach(async () => {
      for (const client of clients.splice(0)) await client.close();
      await valise.close();
    });
    const command = (...more: string[]) => ({ ...commandOf('notebook', '--stdio', ...args, ...more), env });
    const connect = async (
      to: URL | Place | Command = server?.url ?? command(),
      through = valise,
    ): Promise<AnyClient> => {
      const client = makeClient(host);
      await through.connect(client, makeTransport(host, to));
      clients.push(client);
      return client;
    };

    it('[S-07] [S-10] [S-22] [S-25] [S-31] sessions separate notes, and gate operations that require a session', async () => {
      const client = await connect();
      const sessions = valise.sessions(client);
      const [a, b] = [await sessions.create({ label: 'a' }), await sessions.create()];
      const append = (text: string) => callText(client, 'notebook_append', { text });
      expect(await a.run(() => append('one'))).toBe('Note 1 taken.');
      expect(await b.run(() => append('other'))).toBe('Note 1 taken.');
      expect(await a.run(() => append('two'))).toBe('Note 2 taken.');
      expect(await a.run(() => callText(client, 'echo', { msg: 'hi' }))).toBe('hi');
      expect(await callText(client, 'echo', { msg: 'hi' })).toBe('hi');
      expect(await callText(client, 'search_code', { query: 'def fizz_buzz()' })).toBe('Found 3 matches.');
      expect(await a.run(() => callText(client, 'notebook_read'))).toBe('one\ntwo');
      expect(await b.run(() => callText(client, 'notebook_read'))).toBe('other');
      await expect(append('lost')).rejects.toMatchObject(required);
    });

    it('[S-12] [S-13] [S-14] [S-26] sessions can be forked, resumed and deleted, and are then gone', async () => {
      const client = await connect();
      const sessions = valise.sessions(client);
      const session = await sessions.create({ label: 'refactor' });
      await session.run(() => callText(client, 'notebook_append', { text: 'one' }));
      const fork = await session.fork({ label: 'sub' });
      await fork.run(() => callText(client, 'notebook_append', { text: 'two' }));
      expect(await fork.run(() => callText(client, 'notebook_read'))).toBe('one\ntwo');
      expect(await session.run(() => callText(client, 'notebook_read'))).toBe('one');

      // Another process of the same user: the label is enough.
      const again = await connect();
      const found = await valise.sessions(again).named('sub');
      expect(await found.run(() => callText(again, 'notebook_read'))).toBe('one\ntwo');
      expect((await valise.sessions(again).resume(session.id)).id).toBe(session.id);

      await session.delete();
      await expect(session.run(() => callText(client, 'notebook_read'))).rejects.toThrow(SessionGoneError);
      expect((await valise.sessions.kept()).map(({ label }) => label)).toEqual(['sub']);
    });

    it('[S-05] [S-06] sessions are kept for one server and one user, and are sent to no other', async () => {
      const append = (client: AnyClient) => callText(client, 'notebook_append', { text: 'x' });
      const client = await connect();
      const session = await valise.sessions(client).named('refactor');
      expect(await session.run(() => append(client))).toBe('Note 1 taken.');

      // The same server under another name is another target, as far as anybody can know.
      const elsewhere = await connect(
        server ? { url: new URL('http://other.example.com/mcp'), at: server.url } : command('--ttl', '3h'),
      );
      await expect(session.run(() => append(elsewhere))).rejects.toMatchObject(required);
      expect((await valise.sessions(elsewhere).named('refactor')).id).not.toBe(session.id);

      const bobs = await openValise({ store, allowLocal: true, principal: 'bob' });
      try {
        const bob = await connect(undefined, bobs);
        expect(await bobs.sessions.kept()).toEqual([]);
        await expect(session.run(() => append(bob))).rejects.toMatchObject(required);
        const own = await bobs.sessions(bob).named('refactor');
        expect(own.id).not.toBe(session.id);
        expect(await own.run(() => append(bob))).toBe('Note 1 taken.');
      } finally {
        await bobs.close();
      }
      const again = await valise.sessions(client).named('refactor');
      expect(await again.run(() => append(client))).toBe('Note 2 taken.');
    });
  },
);
