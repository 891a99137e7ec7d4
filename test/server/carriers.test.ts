import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { endAll, serve, stock, WAYS } from './carriers-world.ts';

afterEach(endAll);

describe.each(WAYS)('a stock client whose user is known ($way)', (way) => {
  const ann = { 'x-user': 'ann' };

  it('keeps its jar and its default session in the store, on any instance and after a restart', async () => {
    const store = memoryStore();
    const [one, two] = [await serve(way, { store }), await serve(way, { store })];
    const first = await stock(way, one.url, ann);
    const next = await stock(way, two.url, ann);
    const bob = await stock(way, two.url, { 'x-user': 'bob' });
    expect((await first.call('total')).text).toBe('total=1');
    expect((await next.call('total')).text).toBe('total=2');
    expect((await bob.call('total')).text).toBe('total=1');
    expect((await first.call('note')).text).toBe('notes=1');
    expect((await next.call('note')).text).toBe('notes=2');
    expect((await bob.call('note')).text).toBe('notes=1');
  });

  it('loses no update of its default session in parallel calls', async () => {
    const { url } = await serve(way, { store: memoryStore() });
    const client = await stock(way, url, ann);
    await Promise.all(Array.from({ length: 8 }, () => client.call('note')));
    expect((await client.call('note')).text).toBe('notes=9');
  });

  it('without a store, is served from memory by a process whose keys no other one has, which says so once', async () => {
    const { url, warnings } = await serve(way, { keys: 'ephemeral', sessions: {} });
    for (const n of [1, 2]) {
      const client = await stock(way, url, ann);
      expect((await client.call('total')).text).toBe(`total=${n}`);
      expect((await client.call('note')).text).toBe(`notes=${n}`);
    }
    expect(warnings.filter((text) => text.includes('memory'))).toEqual([
      expect.stringMatching(/no store.*memory of this process.*Give createValise a store/),
    ]);
  });

  it('without a store, where there may be several processes, gets an error, and the author hears of it first', async () => {
    const { url, warnings } = await serve(way, { sessions: {}, handles: false });
    await expect.poll(() => warnings).toHaveLength(1);
    const client = await stock(way, url, ann);
    await client.call('plain');
    expect(warnings).toEqual([expect.stringMatching(/^There is no store.*keys: 'ephemeral'/)]);
    expect((await client.call('total')).result.isError).toBe(true);
  });
});

describe.each(WAYS)('a conversation key ($way)', (way) => {
  const of = (key: string) => ({ 'openai/session': key });

  it('is ignored unless the author turns it on', async () => {
    const { url } = await serve(way, { store: memoryStore() });
    const [one, two] = [await stock(way, url, { 'x-user': 'ann' }), await stock(way, url)];
    expect((await one.call('note', {}, of('a'))).text).toBe('notes=1');
    expect((await one.call('note', {}, of('b'))).text).toBe('notes=2');
    await two.call('count', {}, of('a'));
    const other = await stock(way, url);
    expect((await other.call('peek', {}, of('a'))).text).toContain('count=0');
  });

  it('finds the state of an anonymous conversation, on any connection, and no other', async () => {
    const store = memoryStore();
    const { url } = await serve(way, { store, conversation: true });
    const [one, two] = [await stock(way, url), await stock(way, url)];
    expect((await one.call('count', {}, of('a'))).text).toBe('count=1');
    expect((await two.call('count', {}, of('a'))).text).toBe('count=2');
    expect((await two.call('count', {}, of('b'))).text).toBe('count=1');
    expect((await one.call('note', {}, of('a'))).text).toBe('notes=1');
    expect((await two.call('note', {}, of('a'))).text).toBe('notes=2');
    // The key may be a secret, so the store has only its hash.
    const { keys } = await store.list('');
    const stored = await Promise.all(keys.map(async (key) => [key, (await store.get(key))?.value]));
    expect(JSON.stringify(stored)).not.toMatch(/"a"|openai/);
  });

  it('does not fork state in parallel first calls', async () => {
    const { url } = await serve(way, { store: memoryStore(), conversation: true });
    const client = await stock(way, url);
    await Promise.all(Array.from({ length: 4 }, () => client.call('note', {}, of('a'))));
    expect((await client.call('note', {}, of('a'))).text).toBe('notes=5');
  });

  it('is scoped under the principal: another one with the same key finds nothing', async () => {
    const { url } = await serve(way, { store: memoryStore(), conversation: true });
    const [ann, bob] = [
      await stock(way, url, { 'x-user': 'ann' }),
      await stock(way, url, { 'x-user': 'bob' }),
    ];
    const nobody = await stock(way, url);
    expect((await ann.call('count', {}, of('a'))).text).toBe('count=1');
    expect((await bob.call('count', {}, of('a'))).text).toBe('count=1');
    expect((await nobody.call('count', {}, of('a'))).text).toBe('count=1');
    expect((await ann.call('note', {}, of('a'))).text).toBe('notes=1');
    expect((await bob.call('note', {}, of('a'))).text).toBe('notes=1');
    expect((await ann.call('note', {}, of('b'))).text).toBe('notes=1');
    // What belongs to the user is the same in every conversation.
    expect((await ann.call('total', {}, of('a'))).text).toBe('total=1');
    expect((await ann.call('total', {}, of('b'))).text).toBe('total=2');
  });

  it('may be read by a function, and one that is too long is refused with an event', async () => {
    const { url, rejected } = await serve(way, {
      store: memoryStore(),
      conversation: (meta) => meta['example/chat'] as string | undefined,
    });
    const [one, two] = [await stock(way, url), await stock(way, url)];
    await one.call('count', {}, { 'example/chat': 'x' });
    expect((await two.call('count', {}, { 'example/chat': 'x' })).text).toBe('count=2');
    await two.call('plain', {}, { 'example/chat': 'x'.repeat(2000) });
    expect(rejected).toEqual(['the key of a conversation: it is longer than 1024 characters']);
  });
});

describe.each([
  'vscode.conversationId',
  'threadId',
  'ai.opencode/sessionID',
  'antigravity.google/conversation_id',
])('the published key %s', (name) => {
  it('tells conversations apart', async () => {
    const way = WAYS[2];
    const { url } = await serve(way, { store: memoryStore(), conversation: true });
    const client = await stock(way, url);
    expect((await client.call('count', {}, { [name]: 'a' })).text).toBe('count=1');
    expect((await client.call('count', {}, { [name]: 'b' })).text).toBe('count=1');
    expect((await client.call('count', {}, { [name]: 'a' })).text).toBe('count=2');
  });
});
