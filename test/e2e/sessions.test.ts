import { type ClientValise, openValise, SessionGoneError } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { commandOf, type Running, startHttp } from './example.ts';
import { type AnyClient, callText, HOSTS, type Host, makeClient, makeTransport } from './hosts.ts';

const keys = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';
const env = { VALISE_KEYS: keys };

/** Every client on every server over every transport. The newer era is v2's alone, and always without transport sessions. */
const MATRIX = HOSTS.flatMap((host) =>
  (host.era === 'modern' ? ['v2'] : ['v1', 'v2']).flatMap((sdk) =>
    ['stdio', 'http', ...(host.era === 'modern' ? [] : ['http --stateless'])].map((transport) => ({
      ...host,
      sdk,
      transport,
    })),
  ),
);

describe.each(MATRIX)(
  'sessions of a $client client ($era) with a $sdk server over $transport',
  ({ client: major, era, sdk, transport }) => {
    const host = { client: major, era } as Host;
    const args = ['--sdk', sdk, ...transport.split(' ').slice(1)];
    let server: (Running & { readonly url: URL }) | undefined;
    let valise: ClientValise;
    const clients: AnyClient[] = [];
    beforeAll(async () => {
      if (transport !== 'stdio') server = await startHttp('notebook', args, env);
    });
    afterAll(async () => void (await server?.stop('SIGTERM')));
    beforeEach(async () => {
      valise = await openValise({ store: memoryStore(), allowLocal: true });
    });
    afterEach(async () => {
      for (const client of clients.splice(0)) await client.close();
      await valise.close();
    });
    const connect = async (): Promise<AnyClient> => {
      const client = makeClient(host);
      const command = { ...commandOf('notebook', '--stdio', ...args), env };
      await valise.connect(client, makeTransport(host, server?.url ?? command));
      clients.push(client);
      return client;
    };

    it('[S-07] [S-10] [S-22] [S-25] [S-31] keep notes apart, and gate what needs a session', async () => {
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
      await expect(append('lost')).rejects.toMatchObject({ code: era === 'legacy' ? -32044 : -31044 });
    });

    it('[S-12] [S-13] [S-14] [S-26] are forked, resumed, deleted and gone', async () => {
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
  },
);
