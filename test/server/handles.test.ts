import { Client } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { endAll, serve, stock, stockOf, WAYS } from './carriers-world.ts';

afterEach(async () => {
  vi.useRealTimers();
  await endAll();
});

/** Ways in which nothing but a handle tells anonymous clients apart. */
const ANONYMOUS = [
  { ...WAYS[0], edge: false },
  { ...WAYS[1], edge: false },
  { ...WAYS[2], edge: true },
];

/** Everything in a store, as text. */
async function dump(store: Store): Promise<string> {
  const { keys } = await store.list('');
  return JSON.stringify(await Promise.all(keys.map(async (key) => [key, (await store.get(key))?.value])));
}

describe.each(ANONYMOUS)('a state handle ($way)', (way) => {
  it('a state handle carries jar and session from call to call, on any instance, for every client that passes it', async () => {
    const store = memoryStore();
    const [one, two] = [await serve(way, { store }, way), await serve(way, { store }, way)];
    const client = await stock(way, one.url);
    const { text, handle } = await client.call('count');
    expect(text).toBe(
      `count=1\nstate_handle: ${handle}\nPass it unchanged as "state_handle" in every later call to this server.`,
    );
    expect(handle).toMatch(/^vh1_[\w-]{22}$/);
    const other = await stock(way, two.url);
    const again = await other.call('count', { state_handle: handle });
    expect(again.text).toBe(`count=2\nstate_handle: ${handle}`);
    expect((await client.call('note', { state_handle: handle })).text).toContain('notes=1');
    expect((await other.call('note', { state_handle: handle })).text).toContain('notes=2');
    expect((await client.call('count')).text).toContain('count=1\n');
    expect(await dump(store)).not.toContain(handle);
  });

  it('a state handle is an optional last parameter of only the tools that keep state, for every client', async () => {
    const { url } = await serve(way, { store: memoryStore() }, way);
    const [nobody, ann] = [await stock(way, url), await stock(way, url, { 'x-user': 'ann' })];
    const tools = await nobody.tools();
    expect(await ann.tools()).toEqual(tools);
    const named = (name: string) => tools.find((tool) => tool.name === name);
    for (const name of ['count', 'strict', 'note', 'greet']) {
      const { properties = {}, required = [] } = named(name)?.inputSchema ?? {};
      expect(Object.keys(properties).at(-1)).toBe('state_handle');
      expect(properties['state_handle']).toEqual({
        type: 'string',
        description: expect.stringMatching(/^Opaque\./),
      });
      expect(required).not.toContain('state_handle');
      expect(named(name)?.description).toMatch(/24 hours.*30 days/);
    }
    expect(named('strict')?.outputSchema?.properties).toHaveProperty('state_handle');
    expect(JSON.stringify(named('plain'))).not.toContain('handle');
  });

  it('a state handle works with strict schemas, and is part of structured content too', async () => {
    const { url } = await serve(way, { store: memoryStore() }, way);
    const client = await stock(way, url);
    await client.tools();
    const { handle, result } = await client.call('strict', { by: 1 });
    expect(result.structuredContent).toEqual({ n: 1, state_handle: handle });
    expect(result.content.at(-1)?.text).toContain(`\nstate_handle: ${handle}`);
    expect(
      (await client.call('strict', { by: 1, state_handle: handle })).result.structuredContent,
    ).toMatchObject({
      n: 2,
    });
  });

  it('a state handle is created on the first write only', async () => {
    const store = memoryStore();
    const { url } = await serve(way, { store }, way);
    const client = await stock(way, url);
    expect((await client.call('peek')).text).toBe('count=0');
    expect((await client.call('plain')).text).toBe('plain');
    expect((await store.list('')).keys).toEqual([]);
  });

  it('a state handle is read in any form a model copies it, and null or empty text counts as absent', async () => {
    const { url } = await serve(way, { store: memoryStore() }, way);
    const client = await stock(way, url);
    const { handle } = await client.call('count');
    for (const [at, copied] of [`"${handle}"`, `\`${handle}\``, ` state_handle: ${handle}\n`].entries())
      expect((await client.call('count', { state_handle: copied })).text).toContain(`count=${at + 2}\n`);
    for (const nothing of [null, '', ' ']) {
      const { text, result } = await client.call('count', { state_handle: nothing });
      expect(result.isError).not.toBe(true);
      expect(text).toContain('count=1\n');
    }
  });

  it('an unknown state handle gets a result that tells the model what to do, and an event', async () => {
    const { url, rejected } = await serve(way, { store: memoryStore() }, way);
    const client = await stock(way, url);
    for (const forged of ['vh1_AAAAAAAAAAAAAAAAAAAAAA', 'mine', 7, 'x'.repeat(10_000), '../row/x']) {
      const { text, result } = await client.call('count', { state_handle: forged });
      expect(result.isError).toBe(true);
      expect(text).toBe('state_handle is unknown or expired. Call again without state_handle to start over.');
    }
    expect(rejected).toHaveLength(5);
  });

  it('a state handle expires one day after its last use, and 30 days after its first use at the latest', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const hours = (n: number) => vi.setSystemTime(Date.now() + n * 3_600_000);
    const { url } = await serve(way, { store: memoryStore(), sessions: undefined }, way);
    const client = await stock(way, url);
    const idle = (await client.call('count')).handle;
    const used = (await client.call('count')).handle;
    for (let days = 0; days < 29.5; days += 0.5) {
      hours(12);
      expect((await client.call('count', { state_handle: used })).result.isError).not.toBe(true);
    }
    expect((await client.call('count', { state_handle: idle })).result.isError).toBe(true);
    hours(13);
    expect((await client.call('count', { state_handle: used })).result.isError).toBe(true);
  });

  it('new state handles are limited, and an event reports the limit', async () => {
    const { url, rejected } = await serve(way, { store: memoryStore(), jar: { maxAnonymous: 3 } }, way);
    const client = await stock(way, url);
    for (let n = 0; n < 3; n++) expect((await client.call('count')).handle).toBeDefined();
    await expect(client.call('count')).rejects.toThrow(/too many state handles/);
    expect(rejected.join()).toMatch(/a new state handle: .*count/);
  });

  it('a client that carries its state gets no state handle, and its host sees none', async () => {
    const { url } = await serve(way, { store: memoryStore() }, way);
    const valise = await openValise({ store: 'memory:', allowLocal: true });
    const client = new Client({ name: 'host', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await valise.connect(client, url);
    const host = stockOf(client);
    expect(JSON.stringify(await host.tools())).not.toMatch(/handle|24 hours/);
    expect((await host.call('count')).text).toBe('count=1');
    expect((await host.call('count')).text).toBe('count=2');
    await valise.close();
    await client.close();
  });

  it('an identified user or a conversation gets no state handle, and one that is sent is ignored', async () => {
    const { url } = await serve(way, { store: memoryStore(), conversation: true }, way);
    const [ann, nobody] = [await stock(way, url, { 'x-user': 'ann' }), await stock(way, url)];
    const { handle } = await nobody.call('count');
    expect((await ann.call('count', { state_handle: handle })).text).toMatch(/^count=1$/);
    expect((await nobody.call('count', { state_handle: handle }, { threadId: 't' })).text).toBe('count=1');
  });

  it('handles: false turns state handles off, warns the author, and requires a session', async () => {
    const { url, warnings } = await serve(way, { store: memoryStore(), handles: false }, way);
    const client = await stock(way, url);
    expect(JSON.stringify(await client.tools())).not.toContain('handle');
    expect((await client.call('count')).result.isError).toBe(true);
    expect(warnings.join()).toMatch(/keepsState/);
    await expect(client.call('note')).rejects.toThrow(/Session required/);
  });

  it('every tool has the parameter state_handle with handles: all', async () => {
    const { url } = await serve(way, { store: memoryStore(), handles: 'all' }, way);
    const client = await stock(way, url);
    for (const { inputSchema } of await client.tools())
      expect(inputSchema.properties).toHaveProperty('state_handle');
  });
});

describe('state handles without a store', () => {
  it('no tool takes a state handle without a store, and the author is warned at startup', async () => {
    const way = WAYS[2];
    const { url, warnings } = await serve(way, { sessions: {}, principal: undefined });
    const client = await stock(way, url);
    expect(warnings).toEqual([expect.stringMatching(/"count".*state_handle.*store/)]);
    expect(JSON.stringify(await client.tools())).not.toContain('handle');
  });
});

describe('state handles in a transport session', () => {
  it('state belongs to the transport session, and a state handle from elsewhere still works', async () => {
    const [legacy, modern] = [WAYS[1], WAYS[2]];
    const { url } = await serve(modern, { store: memoryStore() });
    const { handle } = await (await stock(modern, url)).call('count');
    const client = await stock(legacy, url);
    expect((await client.call('count')).text).toBe('count=1');
    expect((await client.call('count')).text).toBe('count=2');
    expect((await client.call('count', { state_handle: handle })).text).toBe(
      `count=2\nstate_handle: ${handle}`,
    );
  });
});
