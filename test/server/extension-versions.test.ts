import { memoryStore, type Store } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { resultOf, textOf } from './raw-client.ts';
import { connect, errorOf, makeServer, STAGES, type Stage, type Wire } from './sessions-tool.ts';

/** What a client announces of the extensions, in a version each. */
const announcing = (sessions: object, state: object = sessions) => ({
  experimental: { sessions: {} },
  state: {},
  extensions: { 'dev.valise/sessions': sessions, 'dev.valise/state': state },
});

/** A server that takes notes in stored sessions, and its store. */
function makeNotes(store: Store = memoryStore()) {
  const { valise, rejected } = makeServer(
    (session) => {
      const { session: jar } = valise.jar;
      jar.set('calls', Number(jar.get('calls') ?? 0) + 1);
      const notes = [...(session?.get<number[]>('notes') ?? []), 1];
      session?.set('notes', notes);
      return notes.length;
    },
    { store, sessions: { mode: 'stored' }, jar: { session: { calls: { plain: true } } } },
  );
  return { valise, rejected, store };
}

const STATE: Record<Stage['era'], (calls: number) => object> = {
  legacy: (calls) => ({ 'modelcontextprotocol.io/state/session': { calls } }),
  modern: (calls) => ({ 'dev.valise/state': { session: { calls } } }),
};

/** The record of the only session, and its key. */
async function recordIn(store: Store): Promise<readonly [string, Record<string, unknown>]> {
  for (const key of (await store.list('')).keys) {
    const value = (await store.get(key))?.value;
    if (typeof value === 'object' && value !== null && 'seq' in value) return [key, { ...value }];
  }
  throw new Error('There is no record of a session.');
}

describe.each(STAGES)('extension versions at $stage', (stage) => {
  const { era, method, sent, sessionIn } = stage;

  it('are announced by the server', async () => {
    const client = await connect(makeNotes().valise, stage);
    expect(client.initialized['capabilities']).toMatchObject({
      extensions: {
        'dev.valise/state': { versions: ['1.0.0'] },
        'dev.valise/sessions': { versions: ['1.0.0'] },
      },
    });
    await client.close();
  });

  it.each([
    { what: 'none', settings: {} },
    { what: 'the same one', settings: { version: '1.0.0' } },
    { what: 'a newer minor one', settings: { version: '1.7.3' } },
  ])('are agreed on with a client that names $what', async ({ settings }) => {
    const client = await connect(makeNotes().valise, stage, announcing(settings));
    const session = resultOf(await client.request(method.create))['session'] as Wire;
    const result = await client.call('work', {}, sent(session));
    expect(textOf(result)).toBe('1');
    expect(sessionIn(result)).toMatchObject({ sessionId: session.sessionId });
    expect(result._meta).toMatchObject(STATE[era](1));
    await client.close();
  });

  it.each([
    { what: 'another major one', version: '2.0.0', requested: '2.0.0' },
    { what: 'a malformed one', version: '1', requested: '1' },
    { what: 'one that is no text', version: 1, requested: 'malformed' },
  ])(
    'are refused from a client that names $what, where it uses the extension, and only there',
    async ({ version, requested }) => {
      const { valise } = makeNotes();
      const client = await connect(valise, stage, announcing({ version }));
      const refused = (...families: string[]) => ({
        code: -32005,
        data: {
          extensions: Object.fromEntries(
            families.map((family) => [`dev.valise/${family}`, { requested, supported: ['1.0.0'] }]),
          ),
        },
      });
      expect(errorOf(await client.request(method.create))).toMatchObject(refused('sessions'));
      const call = (_meta: object) => client.request('tools/call', { name: 'work', arguments: {}, _meta });
      const named = sent({ sessionId: 'sess-1' });
      expect(errorOf(await call({ ...named, ...STATE[era](1) }))).toMatchObject(refused('sessions', 'state'));
      expect(errorOf(await call(STATE[era](1)))).toMatchObject(refused('state'));
      // A call that uses neither works, and brings nothing that the client does not understand.
      expect(resultOf(await client.request('tools/list'))['tools']).toHaveLength(2);
      await client.close();
    },
  );

  it('are agreed on for each extension by itself', async () => {
    const client = await connect(
      makeNotes().valise,
      stage,
      announcing({ version: '1.0.0' }, { version: '2.0.0' }),
    );
    const session = resultOf(await client.request(method.create))['session'] as Wire;
    expect(session.sessionId).toMatch(/^sess-/);
    await client.close();
  });

  it('are kept by a session, whatever a later request names', async () => {
    const { valise, store } = makeNotes();
    const first = await connect(valise, stage, announcing({ version: '1.0.0' }));
    let session = resultOf(await first.request(method.create))['session'] as Wire;
    expect((await recordIn(store))[1]).toMatchObject({ version: '1.0' });
    for (const settings of [{ version: '1.9.0' }, {}]) {
      const client = await connect(valise, stage, announcing(settings));
      session = sessionIn(await client.call('work', {}, sent(session))) as Wire;
      expect((await recordIn(store))[1]).toMatchObject({ version: '1.0' });
      await client.close();
    }
    await first.close();
  });

  it('of another release: a session is refused, and its record stays as it is', async () => {
    const { valise, rejected, store } = makeNotes();
    const client = await connect(valise, stage, announcing({}));
    const session = resultOf(await client.request(method.create))['session'] as Wire;
    const [key, record] = await recordIn(store);
    const made = { ...record, version: '2.1' };
    await store.put(key, made as never);
    const call = { name: 'work', arguments: {}, _meta: sent(session) };
    expect(errorOf(await client.request('tools/call', call))).toMatchObject(stage.unknown(session));
    expect(rejected).toContainEqual(
      expect.objectContaining({ reason: expect.stringContaining('version 2.1 of dev.valise/sessions') }),
    );
    expect((await store.get(key))?.value).toEqual(made);
    // A newer minor version of the same major one is used, and kept.
    await store.put(key, { ...record, version: '1.6' } as never);
    expect(textOf(resultOf(await client.request('tools/call', call)))).toBe('1');
    expect((await store.get(key))?.value).toMatchObject({ version: '1.6' });
    await client.close();
  });
});
