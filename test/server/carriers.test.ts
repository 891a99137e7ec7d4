import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { endAll, serve, stock, WAYS } from './carriers-world.ts';

afterEach(endAll);

describe.each(WAYS)('a stock client of an identified user ($way)', (way) => {
  const ann = { 'x-user': 'ann' };

  it('the jar and the default session of an identified user are in the store, for any instance and after a restart', async () => {
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

  it('a default session loses no update in parallel calls of a stock client', async () => {
    const { url } = await serve(way, { store: memoryStore() });
    const client = await stock(way, url, ann);
    await Promise.all(Array.from({ length: 8 }, () => client.call('note')));
    expect((await client.call('note')).text).toBe('notes=9');
  });

  it('a process with ephemeral keys serves an identified user from memory without a store, and warns once', async () => {
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

  it('a stock client gets an error without a store if there may be several processes, and the author is warned first', async () => {
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

  it('a conversation key is ignored by default', async () => {
    const { url } = await serve(way, { store: memoryStore() });
    const [one, two] = [await stock(way, url, { 'x-user': 'ann' }), await stock(way, url)];
    expect((await one.call('note', {}, of('a'))).text).toBe('notes=1');
    expect((await one.call('note', {}, of('b'))).text).toBe('notes=2');
    await two.call('count', {}, of('a'));
    const other = await stock(way, url);
    expect((await other.call('peek', {}, of('a'))).text).toContain('count=0');
  });

  it('a conversation key finds the state of its anonymous conversation on any connection, and no other state', async () => {
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

  it('parallel first calls with one conversation key share one state', async () => {
    const { url } = await serve(way, { store: memoryStore(), conversation: true });
    const client = await stock(way, url);
    await Promise.all(Array.from({ length: 4 }, () => client.call('note', {}, of('a'))));
    expect((await client.call('note', {}, of('a'))).text).toBe('notes=5');
  });

  it('a conversation key finds nothing that belongs to another principal', async () => {
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

  it('a function may read the conversation key, and a key that is too long is refused with an event', async () => {
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
  it('a published conversation key separates conversations', async () => {
    const way = WAYS[2];
    const { url } = await serve(way, { store: memoryStore(), conversation: true });
    const client = await stock(way, url);
    expect((await client.call('count', {}, { [name]: 'a' })).text).toBe('count=1');
    expect((await client.call('count', {}, { [name]: 'b' })).text).toBe('count=1');
    expect((await client.call('count', {}, { [name]: 'a' })).text).toBe('count=2');
  });
});
