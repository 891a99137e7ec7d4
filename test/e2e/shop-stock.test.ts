import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resultOf, textOf } from '../server/raw-client.ts';
import { commandOf, type Running, startHttp } from './example.ts';
import {
  type AnyClient,
  type Command,
  callText,
  HOSTS,
  type Host,
  makeClient,
  makeTransport,
} from './hosts.ts';
import { callParams, httpWire } from './wire.ts';

const env = { VALISE_KEYS: generateKey() };

async function connected(host: Host, to: URL | Command): Promise<AnyClient> {
  const client = makeClient(host);
  await client.connect(makeTransport(host, to));
  return client;
}

const legacyHosts = HOSTS.filter(({ era }) => era === 'legacy');

describe.each(['v1', 'v2'])('stock clients at the shop on SDK %s', (sdk) => {
  const hosts = sdk === 'v1' ? legacyHosts : HOSTS;
  let folder: string;
  let kept: Running & { readonly url: URL };
  let stateless: [Running & { readonly url: URL }, Running & { readonly url: URL }];
  let bare: Running & { readonly url: URL };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'valise-shop-'));
    const shared = ['--sdk', sdk, '--store', `sqlite:${folder}/shared.db`, '--stateless'];
    [kept, bare, ...stateless] = await Promise.all([
      startHttp('shop', ['--sdk', sdk, '--store', `sqlite:${folder}/http.db`], env),
      startHttp('shop', ['--sdk', sdk], env),
      startHttp('shop', shared, env),
      startHttp('shop', shared, env),
    ]);
  });

  afterAll(async () => {
    await Promise.all([kept, bare, ...(stateless ?? [])].map((shop) => shop?.stop('SIGTERM')));
    rmSync(folder, { recursive: true, force: true });
  });

  it.each(legacyHosts)(
    'a stock $client client over HTTP gets a cart for each session from the store',
    async (host) => {
      const [one, other] = [await connected(host, kept.url), await connected(host, kept.url)];
      await callText(one, 'add_item', { item: 'cucumber', price: 40 });
      await callText(one, 'add_item', { item: 'tomato', price: 60 });
      expect(await callText(one, 'view_cart')).toBe('Cart: cucumber, tomato; total 100');
      expect(await callText(other, 'view_cart')).toBe('Cart: empty');
      await callText(one, 'remember', { name: 'colour', value: 'green' });
      expect(await callText(one, 'recall', { name: 'colour' })).toBe('green');
      expect(await callText(other, 'recall', { name: 'colour' })).toBe('Nothing is remembered as colour.');
      await Promise.all([one.close(), other.close()]);
    },
  );

  it.each(hosts)(
    'a stock $client client ($era) over stdio gets a cart for each process, and memories for the user',
    async (host) => {
      const command = commandOf(
        'shop',
        '--stdio',
        '--sdk',
        sdk,
        '--store',
        `sqlite:${folder}/${host.client}${host.era}.db`,
      );
      const one = await connected(host, { ...command, env });
      expect(await callText(one, 'add_item', { item: 'cucumber', price: 40 })).toBe(
        'Cart: cucumber; total 40',
      );
      expect(await callText(one, 'view_cart')).toBe('Cart: cucumber; total 40');
      await callText(one, 'remember', { name: 'colour', value: 'green' });
      await one.close();
      const other = await connected(host, { ...command, env });
      expect(await callText(other, 'view_cart')).toBe('Cart: empty');
      expect(await callText(other, 'recall', { name: 'colour' })).toBe('green');
      await other.close();
    },
  );

  it.each(hosts)(
    'a stock $client client ($era) without a store gets an error on set, and reading still works',
    async (host) => {
      const client = await connected(host, bare.url);
      expect(await client.callTool({ name: 'add_item', arguments: { item: 'tomato' } })).toMatchObject({
        isError: true,
        content: [{ text: expect.stringMatching(/does not carry state.*no store to keep it in\.$/) }],
      });
      expect(await callText(client, 'view_cart')).toBe('Cart: empty');
      await client.close();
    },
  );

  it.each(legacyHosts)(
    'a stock $client client over stateless HTTP gets a cart for each sealed session, on any instance',
    async (host) => {
      const [one, other] = [await connected(host, stateless[0].url), await connected(host, stateless[1].url)];
      await callText(one, 'add_item', { item: 'cucumber', price: 40 });
      expect(await callText(one, 'view_cart')).toBe('Cart: cucumber; total 40');
      expect(await callText(other, 'view_cart')).toBe('Cart: empty');
      const { sessionId } = one.transport as { sessionId?: string };
      const elsewhere = await httpWire(stateless[1].url, 'legacy', {}, sessionId);
      const view = await elsewhere.request('tools/call', callParams('view_cart', {}));
      expect(textOf(resultOf(view))).toBe('Cart: cucumber; total 40');
      await Promise.all([one.close(), other.close()]);
    },
  );

  it.each(hosts.filter(({ era }) => era === 'modern'))(
    'a stock $client client ($era) over HTTP without auth gets an error on set that says so',
    async (host) => {
      const client = await connected(host, kept.url);
      expect(await callText(client, 'apply_coupon', { code: 'X' })).toMatch(
        /neither a transport session nor a verified principal under which the server could store it\.$/,
      );
      expect(await callText(client, 'view_cart')).toBe('Cart: empty');
      await client.close();
    },
  );
});
