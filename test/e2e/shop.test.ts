import { createSealer, generateKey } from 'mcp-valise/seal';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Meta, Response, Result } from '../../src/wire/index.ts';
import { resultOf, textOf } from '../server/raw-client.ts';
import { type Running, start, startHttp } from './example.ts';
import { callParams, type Era, httpWire, stdioWire, type Wire } from './wire.ts';

const SESSION = 'modelcontextprotocol.io/state/session';
const SERVER = 'modelcontextprotocol.io/state/server';
const MODERN = 'dev.valise/state';

const VALISE_KEYS = generateKey();
const CARRIES = { state: {}, extensions: { 'dev.valise/state': {} } };

const call = async (wire: Wire, name: string, args: object = {}, meta?: Meta): Promise<Result> =>
  resultOf(await wire.request('tools/call', callParams(name, args, meta)));

/** State of a scope in a `_meta`, in the spelling of the era. */
const written = (era: Era, scope: 'session' | 'server', values: object): Meta =>
  era === 'modern' ? { [MODERN]: { [scope]: values } } : { [scope === 'session' ? SESSION : SERVER]: values };

/** Without what the SDK itself adds to every result of the newer era. */
const stateMeta = ({ _meta = {} }: Result): Meta => {
  const { 'io.modelcontextprotocol/serverInfo': _, ...rest } = _meta;
  return rest;
};

const WAYS = [
  { way: 'stdio, v1', http: false, era: 'legacy', args: ['--sdk', 'v1'] },
  { way: 'stdio, v2', http: false, era: 'legacy', args: [] },
  { way: 'stdio, v2', http: false, era: 'modern', args: [] },
  { way: 'HTTP, v1', http: true, era: 'legacy', args: ['--sdk', 'v1'] },
  { way: 'stateless HTTP, v1', http: true, era: 'legacy', args: ['--sdk', 'v1', '--stateless'] },
  { way: 'HTTP, v2', http: true, era: 'legacy', args: [] },
  { way: 'stateless HTTP, v2', http: true, era: 'legacy', args: ['--stateless'] },
  { way: 'HTTP, v2', http: true, era: 'modern', args: ['--sdk', 'v2'] },
] as const;

describe.each(WAYS)('the shop over $way, $era era, seen on the wire', ({ http, era, args }) => {
  let shop: Running & { readonly url?: URL };
  let wire: Wire;

  /** A stateless instance has not seen our `initialize`: sending state, even none, says that it is carried. */
  const empty = written(era, 'session', {});

  beforeAll(async () => {
    shop = http
      ? await startHttp('shop', args, { VALISE_KEYS })
      : start('shop', ['--stdio', ...args], { VALISE_KEYS });
    wire = shop.url ? await httpWire(shop.url, era, CARRIES) : await stdioWire(shop, era, CARRIES);
  });

  afterAll(() => shop.stop('SIGTERM'));

  it('the shop lists its tools', async () => {
    const { tools } = resultOf(await wire.request('tools/list')) as unknown as {
      tools: { name: string; inputSchema: { properties?: object; required?: string[] } }[];
    };
    const shape = tools.map(({ name, inputSchema: { properties = {}, required = [] } }) => [
      name,
      ...Object.keys(properties).map((property) => (required.includes(property) ? property : `${property}?`)),
    ]);
    expect(shape).toEqual([
      ['add_item', 'item', 'price?'],
      ['view_cart'],
      ['apply_coupon', 'code'],
      ['clear_cart'],
      ['remember', 'name', 'value'],
      ['recall', 'name'],
      ['forget', 'name'],
    ]);
  });

  it('[J-02] [J-06] [J-07] the shop puts the cart of the draft into the client', async () => {
    const first = await call(wire, 'add_item', { item: 'cucumber', price: 40 }, empty);
    expect(stateMeta(first)).toEqual(
      written(era, 'session', { 'Cart Contents': { items: ['cucumber'], price: 40 } }),
    );
    const second = await call(wire, 'add_item', { item: 'tomato', price: 60 }, stateMeta(first));
    expect(stateMeta(second)).toEqual(
      written(era, 'session', { 'Cart Contents': { items: ['cucumber', 'tomato'], price: 100.0 } }),
    );
    const coupon = await call(wire, 'apply_coupon', { code: 'XYZZY' }, stateMeta(second));
    expect(stateMeta(coupon)).toEqual(written(era, 'session', { 'Coupon Code': 'XYZZY' }));
    const held = written(era, 'session', {
      'Cart Contents': { items: ['cucumber', 'tomato'], price: 100 },
      'Coupon Code': 'XYZZY',
    });
    const view = await call(wire, 'view_cart', {}, held);
    expect(textOf(view)).toBe('Cart: cucumber, tomato; total 100; coupon XYZZY');
    expect(view['structuredContent']).toEqual({ items: ['cucumber', 'tomato'], price: 100, coupon: 'XYZZY' });
    expect(stateMeta(view)).toEqual({});
  });

  it('[J-05] the shop clears the cart with null', async () => {
    const held = { 'Cart Contents': { items: ['tomato'], price: 60 }, 'Coupon Code': 'XYZZY' };
    const cleared = await call(wire, 'clear_cart', {}, written(era, 'session', held));
    expect(textOf(cleared)).toBe('Cart: empty');
    expect(stateMeta(cleared)).toEqual(
      written(era, 'session', { 'Cart Contents': null, 'Coupon Code': null }),
    );
  });

  it('[J-03] the shop seals memories in server scope', async () => {
    const set = await call(wire, 'remember', { name: 'colour', value: 'green' }, empty);
    const meta = stateMeta(set);
    const scope = (era === 'modern' ? (meta[MODERN] as Meta)['server'] : meta[SERVER]) as Record<
      string,
      string
    >;
    expect(meta).toEqual(written(era, 'server', { colour: expect.stringMatching(/^v1\.[\w-]{8}\.[\w-]+$/) }));
    const { isBound, expired } = createSealer({ keys: VALISE_KEYS, audience: 'shop' }).describe(
      scope['colour'] ?? '',
    );
    expect({ isBound, expired }).toEqual({ isBound: true, expired: false });
    expect(textOf(await call(wire, 'recall', { name: 'colour' }, meta))).toBe('green');
    expect(stateMeta(await call(wire, 'forget', { name: 'colour' }, meta))).toEqual(
      written(era, 'server', { colour: null }),
    );
    expect(textOf(await call(wire, 'recall', { name: 'colour' }, empty))).toBe(
      'Nothing is remembered as colour.',
    );
  });

  it('the shop ignores a forged memory', async () => {
    const forged = written(era, 'server', { colour: 'v1.AAAAAAAA.AAAA' });
    expect(textOf(await call(wire, 'recall', { name: 'colour' }, forged))).toBe(
      'Nothing is remembered as colour.',
    );
    await expect.poll(() => shop.stderr()).toContain('server state "colour" was not taken');
  });
});

describe('the shop as a process', () => {
  const env = { VALISE_KEYS };

  it.each(['v1', 'v2'])(
    'the shop on SDK %s over stdio exits when its input ends, and on SIGTERM',
    async (sdk) => {
      for (const signal of [undefined, 'SIGTERM'] as const) {
        const shop = start('shop', ['--stdio', '--sdk', sdk], env);
        const wire = await stdioWire(shop, 'legacy', CARRIES);
        await call(wire, 'view_cart');
        if (!signal) shop.child.stdin?.end();
        expect(await shop.stop(signal)).toBe(0);
      }
    },
  );

  it.each(['v1', 'v2'])('the shop on SDK %s over HTTP exits on SIGTERM and SIGINT', async (sdk) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const shop = await startHttp('shop', ['--sdk', sdk, '--store', 'memory:'], env);
      await httpWire(shop.url, 'legacy', {});
      expect(await shop.stop(signal)).toBe(0);
      expect(shop.stderr()).toBe('');
    }
  });

  it('the shop warns that it generated a key if it has none', async () => {
    const shop = await startHttp('shop', [], { VALISE_KEYS: '' });
    await expect.poll(() => shop.stderr()).toMatch(/no keys, so one was made up.*Set VALISE_KEYS/);
    await shop.stop('SIGTERM');
  });

  it.each([
    ['neither --stdio nor --http', [], /either --stdio or --http PORT/],
    ['both --stdio and --http', ['--stdio', '--http', '0'], /either --stdio or --http PORT/],
    ['an invalid port', ['--http', 'x'], /--http takes a port, not x/],
    ['an unknown SDK', ['--stdio', '--sdk', 'v3'], /--sdk takes v1 or v2, not v3/],
    ['an unknown option', ['--stdio', '--nonsense'], /--nonsense/],
  ])('the shop refuses %s, and says why', async (_what, args, why) => {
    const shop = start('shop', args, env);
    expect(await shop.stop()).toBe(1);
    expect(shop.stderr()).toMatch(why);
  });

  it('the shop serves only /mcp, and refuses pages of other origins', async () => {
    const shop = await startHttp('shop', [], env);
    expect((await fetch(new URL('/', shop.url), { method: 'POST' })).status).toBe(404);
    const origin = (value: string) =>
      fetch(shop.url, { method: 'POST', headers: { origin: value } }).then(({ status }) => status);
    expect(await origin('http://evil.example')).toBe(403);
    expect(await origin('http://localhost:5173')).not.toBe(403);
    await shop.stop('SIGTERM');
  });

  it('[J-11] a process of the shop opens state that another process sealed, and keeps nothing in between', async () => {
    let meta: Meta = written('legacy', 'server', {});
    for (const sdk of ['v1', 'v2']) {
      const shop = start('shop', ['--stdio', '--sdk', sdk], env);
      const wire = await stdioWire(shop, 'legacy', CARRIES);
      if (sdk === 'v1') meta = stateMeta(await call(wire, 'remember', { name: 'size', value: { cm: 44 } }));
      else expect(textOf(await call(wire, 'recall', { name: 'size' }, meta))).toBe('{"cm":44}');
      await shop.stop('SIGTERM');
    }
  });

  it('[J-25] the shop answers a call whatever state comes with it', async () => {
    const shop = start('shop', ['--stdio'], env);
    const wire = await stdioWire(shop, 'legacy', CARRIES);
    const deep: Meta = { [SESSION]: { 'Cart Contents': JSON.parse(`${'['.repeat(500)}${']'.repeat(500)}`) } };
    for (const meta of [{ [SESSION]: 1 }, { [SERVER]: [] }, { [SESSION]: { 'Cart Contents': 'x' } }, deep]) {
      const response: Response = await wire.request('tools/call', callParams('view_cart', {}, meta as Meta));
      expect(textOf(resultOf(response))).toBe('Cart: empty');
    }
    await shop.stop('SIGTERM');
  });
});
