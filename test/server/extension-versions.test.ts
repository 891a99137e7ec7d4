import { createSealer } from 'mcp-valise/seal';
import { createValise, type Flow, plainCodec } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { flowPeer, modernCall, name } from './flow-peer.ts';
import { MAJORS } from './majors.ts';
import { resultOf, textOf } from './raw-client.ts';
import { connect, errorOf, keys, makeServer, STAGES, type Stage, type Wire } from './sessions-tool.ts';

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

  it('the server announces its extension versions', async () => {
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
    { what: 'no version', settings: {} },
    { what: 'the same version', settings: { version: '1.0.0' } },
    { what: 'a newer minor version', settings: { version: '1.7.3' } },
  ])('an extension version is agreed on with a client that names $what', async ({ settings }) => {
    const client = await connect(makeNotes().valise, stage, announcing(settings));
    const session = resultOf(await client.request(method.create))['session'] as Wire;
    const result = await client.call('work', {}, sent(session));
    expect(textOf(result)).toBe('1');
    expect(sessionIn(result)).toMatchObject({ sessionId: session.sessionId });
    expect(result._meta).toMatchObject(STATE[era](1));
    await client.close();
  });

  it.each([
    { what: 'another major version', version: '2.0.0', requested: '2.0.0' },
    { what: 'a malformed version', version: '1', requested: '1' },
    { what: 'a version that is not text', version: 1, requested: 'malformed' },
  ])(
    'a client that names $what is refused only when it uses the extension',
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

  it('the version of each extension is agreed on separately', async () => {
    const client = await connect(
      makeNotes().valise,
      stage,
      announcing({ version: '1.0.0' }, { version: '2.0.0' }),
    );
    const session = resultOf(await client.request(method.create))['session'] as Wire;
    expect(session.sessionId).toMatch(/^sess-/);
    await client.close();
  });

  it('a session keeps its extension version, whatever a later request names', async () => {
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

  it('a session of another extension version is refused, and its record stays unchanged', async () => {
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

describe.each([
  ['without a store', undefined],
  ['with a store', memoryStore()],
])('A sealed session %s', (_, store) => {
  it('a sealed session keeps the version of dev.valise/sessions that it began with, and an instance without that version refuses it', async () => {
    const { valise, rejected } = makeServer((session) => session?.set('n', 1), {
      keys,
      ...(store && { store }),
      sessions: { mode: 'sealed' },
    });
    const client = await connect(valise, STAGES[1], announcing({}));
    const made = resultOf(await client.request(STAGES[1].method.create))['session'] as Wire;
    const sealer = createSealer({ keys, audience: 'test' });
    const seal = { purpose: 'session', bind: made.sessionId };
    const stateOf = (version: string) =>
      sealer.seal([...(sealer.open(made.state as string, seal) as never[]), version], seal);
    const call = (state: string) => client.call('work', {}, STAGES[1].sent({ ...made, state }));
    const { state } = STAGES[1].sessionIn(await call(stateOf('1.6'))) as Wire;
    expect(sealer.open(state as string, seal)).toMatchObject({ 5: '1.6' });
    await expect(call(stateOf('2.1'))).rejects.toThrow();
    expect(rejected).toContainEqual(
      expect.objectContaining({ reason: expect.stringContaining('version 2.1 of dev.valise/sessions') }),
    );
    await client.close();
  });
});

describe('the version of dev.valise/rounds in a flow', () => {
  const work = async (_: unknown, flow: Flow) => {
    await flow.ask('first', name);
    await flow.ask('second', name);
    return { content: [] };
  };
  const answered = (key: string, requestState: string) =>
    modernCall(
      {},
      { requestState, inputResponses: { [key]: { action: 'accept', content: { name: 'Ada' } } } },
    );
  /** The state of a flow that an instance of another release began. */
  const begunWith = (version: string, state: string) => {
    const { value, ...rest } = JSON.parse(state.slice('plain.'.length)) as { value: object };
    return `plain.${JSON.stringify({ value: { ...value, v: version }, ...rest })}`;
  };

  it.each(['carried', 'dual'] as const)(
    'a flow keeps the version of dev.valise/rounds that it began with, and an instance without that version refuses it (%s)',
    async (mode) => {
      const valise = createValise({
        name: 'test',
        store: memoryStore(),
        flows: { mode, codec: plainCodec() },
      });
      const rejected: string[] = [];
      valise.on('rejected', ({ reason }) => rejected.push(reason));
      const peer = await flowPeer(MAJORS[1], work, { valise });
      const { requestState } = (await peer.say(modernCall())).result;
      expect(requestState).not.toContain('"v":');
      if (mode === 'carried') {
        const second = await peer.say(answered('first', begunWith('1.6', requestState)));
        expect(second.result.requestState).toContain('"v":"1.6"');
        expect((await peer.say(answered('second', second.result.requestState))).result.content).toEqual([]);
      }
      const refused = await peer.say(answered('first', begunWith('2.1', requestState)));
      expect(refused.error).toMatchObject({ code: -32602, data: { reason: 'invalid_request_state' } });
      expect(rejected).toEqual(['it began with version 2.1 of dev.valise/rounds']);
      await peer.close();
    },
  );
});
