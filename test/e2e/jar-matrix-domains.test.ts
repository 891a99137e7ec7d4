import { type ClientEvents, openValise } from 'mcp-valise/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { callText } from './hosts.ts';
import { MATRIX, Stage } from './matrix.ts';

const SERVER = 'modelcontextprotocol.io/state/server';

// One server behind many names: what tells them apart is the client's to know.
describe.each(MATRIX.filter(({ over }) => over !== 'stdio'))(
  'domains: client $client, server $server, $over, $era era',
  (pairing) => {
    let stage: Stage;

    beforeAll(async () => {
      stage = await Stage.open(pairing);
    });

    afterAll(() => stage?.close());

    /** What each name is sent. */
    const sentTo = async (...hosts: string[]) => {
      const sent: Record<string, unknown> = {};
      for (const host of hosts) {
        const client = await stage.connectAs(host);
        sent[host] = await stage.show('server', client);
        await client.close();
      }
      return sent;
    };

    const setBy = async (host: string, set: object) => {
      const client = await stage.connectAs(host);
      await stage.change('server', { set }, client);
      await client.close();
    };

    it('[J-13] [J-15] state is sent to the server that set it, not to its neighbors', async () => {
      await setBy('www.example.com', { a: 1 });
      expect(
        await sentTo(
          'www.example.com',
          'other.example.com',
          'example.com',
          'sub.www.example.com',
          'www.example.org',
        ),
      ).toEqual({
        'www.example.com': { a: 1 },
        'other.example.com': {},
        'example.com': {},
        'sub.www.example.com': {},
        'www.example.org': {},
      });
    });

    it('[J-14] the name of a server is its host in lower case, without scheme, port or final dot', async () => {
      await setBy('Shop.Example.net', { a: 1 });
      expect(stage.valise.jar.list({ server: 'shop.example.net' })).toMatchObject([{ key: 'a' }]);
      expect(await sentTo('shop.example.net:8443', 'shop.example.net.')).toEqual({
        'shop.example.net:8443': { a: 1 },
        'shop.example.net.': { a: 1 },
      });
    });

    it('[J-16] nothing is kept for an IP address, localhost or an unregistered name, and the server is told', async () => {
      const strict = await openValise({ store: 'memory:' });
      const refused: ClientEvents['refused'][] = [];
      strict.jar.on('refused', (event) => refused.push(event));
      const hosts = ['127.0.0.1', 'localhost', '[::1]', '2130706433', 'printer', 'shop.internal', 'co.uk'];
      for (const host of hosts) {
        const local = await stage.connectAs(host, strict);
        const change = { scope: 'server', set: { a: 1 } };
        expect(await callText(local, 'change', change)).toContain('does not carry state');
        expect(await stage.answer({ [SERVER]: { a: 1 } }, local)).toBe('answered');
        expect(await stage.show('server', local)).toEqual({});
        await local.close();
      }
      expect(strict.jar.list()).toEqual([]);
      expect(refused.map(({ reason }) => reason)).toEqual(hosts.map(() => 'server'));
      await strict.close();
    });

    it('[J-20] state with a server-scope is sent to that domain and its subdomains', async () => {
      await stage.valise.jar.clear();
      await setBy('shop.example.com', { 'wide:1': 1 });
      expect(await sentTo('example.com', 'a.b.example.com', 'example.org', 'notexample.com')).toEqual({
        'example.com': { 'wide:1': 1 },
        'a.b.example.com': { 'wide:1': 1 },
        'example.org': {},
        'notexample.com': {},
      });
    });

    it('[J-20] a server-scope that does not cover the server is refused', async () => {
      await stage.valise.jar.clear();
      await setBy('shop.example.org', { 'wide:2': 1 });
      expect(await sentTo('shop.example.org', 'example.com')).toEqual({
        'shop.example.org': {},
        'example.com': {},
      });
    });
  },
);
