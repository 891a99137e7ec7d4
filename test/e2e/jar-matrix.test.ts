import { type ClientEvents, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { eraOf, readState } from '../../src/wire/index.ts';
import { MATRIX, Stage } from './matrix.ts';

const SESSION = 'modelcontextprotocol.io/state/session';
const SERVER = 'modelcontextprotocol.io/state/server';

describe.each(MATRIX)('client $client, server $server, $over, $era era', (pairing) => {
  const { era, over } = pairing;
  let stage: Stage;

  beforeAll(async () => {
    stage = await Stage.open(pairing);
  });

  afterAll(() => stage?.close());

  afterEach(() => void vi.useRealTimers());

  it('[J-01] [J-08] the first request announces the jar, and carries server scope but not session scope', async () => {
    const [a, b] = [stage.fresh(), stage.fresh()];
    await stage.change('session', { set: { [a]: 1 } });
    await stage.change('server', { set: { [b]: 2 } });
    await stage.seen();
    const other = await stage.connect();
    const [first] = await stage.seen(other);
    expect(first && eraOf(first)).toBe(era);
    const { 'io.modelcontextprotocol/clientCapabilities': announced } = first?.params?._meta ?? {};
    const capabilities = era === 'modern' ? announced : first?.params?.['capabilities'];
    expect(capabilities).toMatchObject({ state: {}, extensions: { 'dev.valise/state': {} } });
    const { session, server } = readState(first?.params?._meta);
    expect(server).toMatchObject({ [b]: 2 });
    expect(session).toBeUndefined();
    await other.close();
  });

  it('[J-02] [J-03] state that a result sets comes back, in both scopes', async () => {
    const [a, b] = [stage.fresh(), stage.fresh()];
    await stage.change('session', { set: { [a]: { items: ['cucumber'], price: 100 } } });
    await stage.change('server', { set: { [b]: 'kept' } });
    expect(await stage.show('session')).toMatchObject({ [a]: { items: ['cucumber'], price: 100 } });
    expect(await stage.show('server')).toMatchObject({ [b]: 'kept' });
    expect(await stage.show('server')).not.toHaveProperty([a]);
  });

  it('sealed values come back, and the client cannot read them', async () => {
    const name = stage.fresh('sealed');
    await stage.change('session', { set: { [name]: 'a secret' } });
    expect(await stage.show('session')).toMatchObject({ [name]: 'a secret' });
    expect(stage.valise.jar.export({ key: name }).entries[0]?.value).toMatch(/^v1\./);
  });

  it('[J-04] the client reads both spellings and writes the one without http://', async () => {
    const [a, b] = [stage.fresh(), stage.fresh()];
    await stage.answer({ [`http://${SESSION}`]: { [a]: 1 }, [SERVER]: { [b]: 2 } });
    expect(await stage.show('session')).toMatchObject({ [a]: 1 });
    expect(await stage.show('server')).toMatchObject({ [b]: 2 });
    for (const { params } of await stage.seen())
      expect(Object.keys(params?._meta ?? {}).filter((key) => key.startsWith('http:'))).toEqual([]);
  });

  it('[J-05] null deletes a key', async () => {
    const name = stage.fresh();
    await stage.change('session', { set: { [name]: 1 } });
    await stage.change('session', { remove: [name] });
    expect(await stage.show('session')).not.toHaveProperty([name]);
    expect(stage.valise.jar.list({ key: name })).toEqual([]);
  });

  it('[J-06] [J-07] a result replaces the keys that it names, and leaves the others', async () => {
    const [a, b] = [stage.fresh(), stage.fresh()];
    await stage.change('session', { set: { [a]: { x: 1, y: 2 }, [b]: 'stays' } });
    await stage.change('session', { set: { [a]: { z: 3 } } });
    const held = await stage.show('session');
    expect(held[a]).toEqual({ z: 3 });
    expect(held[b]).toBe('stays');
  });

  it('[J-08] state is sent with every request', async () => {
    const [a, b] = [stage.fresh(), stage.fresh()];
    await stage.change('session', { set: { [a]: 1 } });
    await stage.change('server', { set: { [b]: 2 } });
    await stage.seen();
    await stage.lists();
    await stage.prompts();
    if (era === 'legacy') await stage.client.ping();
    const requests = await stage.seen();
    expect(requests.map(({ method }) => method)).toEqual([
      'tools/list',
      'prompts/list',
      'prompts/get',
      'completion/complete',
      ...(era === 'legacy' ? ['ping'] : []),
      'tools/call',
    ]);
    for (const { params } of requests)
      expect(readState(params?._meta)).toMatchObject({ session: { [a]: 1 }, server: { [b]: 2 } });
  });

  it('[J-09] a client without state sends none', async () => {
    const empty = await openValise({ store: 'memory:', allowLocal: true });
    await stage.seen();
    const other = await stage.connect(stage.target, empty);
    await stage.show('session', other);
    for (const { params } of await stage.seen(other))
      expect(Object.keys(params?._meta ?? {}).filter((key) => /\/state($|\/)/.test(key))).toEqual([]);
    await other.close();
    await empty.close();
  });

  it('[J-10] session scope belongs to one session, and ends with it', async () => {
    const [a, b, c] = [stage.fresh(), stage.fresh(), stage.fresh()];
    await stage.change('session', { set: { [a]: 1 } });
    await stage.change('server', { set: { [b]: 2 } });
    const other = await stage.connect();
    expect(await stage.show('session', other)).toEqual({});
    expect(await stage.show('server', other)).toMatchObject({ [b]: 2 });
    await stage.change('session', { set: { [c]: 3 } }, other);
    expect(stage.valise.jar.list({ key: c })).toHaveLength(1);
    await other.close();
    expect(stage.valise.jar.list({ key: c })).toEqual([]);
    expect(await stage.show('session')).toMatchObject({ [a]: 1 });
  });

  it('[J-11] server scope survives a restart of the client', async () => {
    const store = memoryStore();
    const name = stage.fresh('sealed');
    for (const expected of [{}, { [name]: 'kept' }]) {
      const host = await openValise({ store, allowLocal: true });
      const client = await stage.connect(stage.target, host);
      expect(await stage.show('server', client)).toEqual(expected);
      await stage.change('server', { set: { [name]: 'kept' } }, client);
      await client.close();
      await host.close();
    }
  });

  it('[J-12] a client can clear one key, one scope or everything at any time', async () => {
    const { jar } = stage.valise;
    const [a, b, c] = [stage.fresh(), stage.fresh(), stage.fresh()];
    await stage.change('session', { set: { [a]: 1, [b]: 2 } });
    await stage.change('server', { set: { [c]: 3 } });
    await jar.clear({ key: a });
    const held = await stage.show('session');
    expect([held[a], held[b]]).toEqual([undefined, 2]);
    await jar.clear({ scope: 'session' });
    expect(await stage.show('session')).toEqual({});
    expect(await stage.show('server')).toMatchObject({ [c]: 3 });
    await jar.clear();
    expect(await stage.show('server')).toEqual({});
  });

  it('[J-18] a client keeps 4,096 bytes per key, and 20 keys per server', async () => {
    const small = Object.fromEntries(Array.from({ length: 20 }, () => [stage.fresh(), 'x']));
    const big = stage.fresh();
    await stage.change('server', { set: { ...small, [big]: 'x'.repeat(4096 - big.length - 2) } });
    expect(await stage.show('server')).toMatchObject(small);
    expect(stage.valise.jar.list({ key: big })).toMatchObject([{ size: 4096 }]);
  });

  it('[J-19] state expires after its max-age, and after 400 days at most', async () => {
    const [brief, long] = [stage.fresh('brief'), stage.fresh()];
    await stage.change('server', { set: { [brief]: 1, [long]: 2 } });
    expect(await stage.show('server')).toMatchObject({ [brief]: 1, [long]: 2 });
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 61_000 });
    const held = await stage.show('server');
    expect([held[brief], held[long]]).toEqual([undefined, 2]);
    vi.setSystemTime(Date.now() + 34_560_000_000);
    expect(await stage.show('server')).toEqual({});
  });

  it('[J-21] [J-22] state with a method-scope is sent only with its methods, until it is set without one', async () => {
    const name = stage.fresh('tools');
    const sentWith = async () => {
      await stage.seen();
      await stage.lists();
      const sent = (await stage.seen()).filter(({ params }) => readState(params?._meta).session?.[name]);
      return sent.map(({ method }) => method);
    };
    await stage.change('session', { set: { [name]: 1 } });
    expect(await sentWith()).toEqual(['tools/list', 'tools/call']);
    await stage.answer({ [SESSION]: { [name]: 2 } });
    expect(await sentWith()).toEqual(['tools/list', 'prompts/list', 'tools/call']);
  });

  it('[J-23] a path scope limits state to one tool, one prompt or one completion', async () => {
    const names = [stage.fresh('show'), stage.fresh('greet'), stage.fresh('complete')] as const;
    await stage.change('session', { set: Object.fromEntries(names.map((name) => [name, 1])) });
    await stage.seen();
    await stage.show('session');
    await stage.prompts();
    const sent = (await stage.seen()).map(({ method, params }) => {
      const held = readState(params?._meta).session ?? {};
      return [method, names.filter((name) => held[name] !== undefined)];
    });
    const [tool, prompt, completion] = names;
    expect(sent).toEqual([
      ['tools/call', [tool]],
      ['prompts/get', [prompt]],
      ['completion/complete', [completion]],
      ['tools/call', []],
    ]);
  });

  it('[J-25] bad state in a result never fails the call, and an event says why', async () => {
    const refused: ClientEvents['refused'][] = [];
    const off = stage.valise.jar.on('refused', (event) => refused.push(event));
    const name = stage.fresh();
    const bad = [
      { [SESSION]: 'text' },
      { [SERVER]: [1] },
      { 'dev.valise/state': 7 },
      { [SESSION]: { [name]: JSON.parse(`${'['.repeat(100)}${']'.repeat(100)}`) } },
      { [SESSION]: { [name]: 1 }, 'dev.valise/state-attributes': { session: { [name]: { 'max-age': 0 } } } },
    ];
    for (const meta of bad) expect(await stage.answer(meta)).toBe('answered');
    off();
    expect(refused).toHaveLength(bad.length);
    expect(await stage.show('session')).not.toHaveProperty([name]);
  });

  if (over === 'stdio') {
    it('[J-17] [J-26] a stdio server is identified by its file and its package', async () => {
      const name = stage.fresh();
      await stage.change('server', { set: { [name]: 1 } });
      const [entry] = stage.valise.jar.list({ key: name });
      expect(entry?.server).toMatch(/^\/.*\/test-e2e-probe\.mjs#mcp-valise@\d+\.\d+\.\d+$/);
    });
  }
});
