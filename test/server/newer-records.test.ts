import { createSealer } from 'mcp-valise/seal';
import { createValise, type Flow } from 'mcp-valise/server';
import { type Json, memoryStore, type Store } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { accept, flowPeer, modernCall, name, text } from './flow-peer.ts';
import { MAJORS } from './majors.ts';
import { connect, count, errorOf, keys, makeServer, STAGES } from './sessions-tool.ts';
import { counting, tool } from './state-tool.ts';

type JsonObject = Record<string, Json>;

/** Does to every record under the keys that match what a later, or an earlier, release would have done. */
async function rewrite(
  store: Store,
  keysLike: RegExp,
  change: (value: JsonObject, key: string) => Json,
): Promise<Map<string, Json>> {
  const written = new Map<string, Json>();
  for (const key of (await store.list('', { limit: 1000 })).keys.filter((each) => keysLike.test(each))) {
    const value = change((await store.get(key))?.value as JsonObject, key);
    await store.put(key, value);
    written.set(key, value);
  }
  expect(written.size).toBeGreaterThan(0);
  return written;
}

const newer = (value: JsonObject): Json => ({ ...value, format: 99 });
const older = ({ format: _, ...value }: JsonObject): Json => value;
const MODERN = MAJORS[1] as (typeof MAJORS)[number];

async function expectUntouched(store: Store, written: ReadonlyMap<string, Json>): Promise<void> {
  for (const [key, value] of written) expect((await store.get(key))?.value).toEqual(value);
}

describe.each(STAGES)('stored sessions on $stage', (at) => {
  const open = async () => {
    const store = memoryStore();
    const { valise } = makeServer(count, {
      store,
      sessions: { mode: 'stored' },
      principal: () => ({ subject: 'ann' }),
    });
    const warnings: string[] = [];
    valise.on('warning', ({ what }) => warnings.push(what));
    return { store, warnings, client: await connect(valise, at) };
  };

  it.each([
    ['session record', /\/record\//],
    ['session list', /\/index\//],
  ])(
    'a %s of a later release stays unchanged, a warning names it, and the client may try again',
    async (kind, like) => {
      const { store, warnings, client } = await open();
      const session = await client.create();
      const written = await rewrite(store, like, newer);
      const failed =
        kind === 'session list' ? await client.request(at.method.create, {}) : await client.in(session);
      expect(errorOf(failed)).toMatchObject({ code: -32603 });
      await expectUntouched(store, written);
      const said = `a ${kind} of version 99, and this release of Valise knows versions up to 1`;
      expect(warnings).toContainEqual(expect.stringContaining(said));
    },
  );

  it('session records without a version count as version 1', async () => {
    const { store, client } = await open();
    const session = await client.create();
    await rewrite(store, /\/(record|index)\//, older);
    expect(await client.in(session)).toHaveProperty('result');
    expect(JSON.stringify(await client.request(at.method.list))).toContain(session.sessionId);
  });
});

it('a state record of a later release stays unchanged, and a warning names it', async () => {
  const store = memoryStore();
  const client = await tool(MODERN, counting, { keys, store }, {});
  await client.call('work');
  const written = await rewrite(store, /^state\/session\//, newer);
  expect(await client.request('tools/call', { name: 'work', arguments: {} })).toMatchObject({
    error: { code: -32603 },
  });
  await expectUntouched(store, written);
});

describe('the records of a flow', () => {
  const sealer = createSealer({ keys, audience: 'test', ttl: 3600 });
  const stage = async () => {
    const store = memoryStore();
    const valise = createValise({ name: 'test', keys, store, flows: { mode: 'stored' } });
    const effects: string[] = [];
    const peer = await flowPeer(
      MODERN,
      async (_: unknown, flow: Flow) => {
        await flow.ask('sure', name);
        await flow.once('delete', () => void effects.push('deleted'));
        await flow.ask('again', name);
        return text('Deleted.');
      },
      { valise },
    );
    const answer = (requestState: unknown, key: string) =>
      peer.say(modernCall({}, { requestState, inputResponses: { [key]: accept({ name: 'yes' }) } }));
    const { requestState } = (await peer.say(modernCall())).result;
    /** Seals a record again with another version, as a release with the same keys would. */
    const withFormat =
      (format: number | undefined) =>
      (token: unknown, key: string): Json => {
        const options = { purpose: 'flow-record', bind: [key, 1] };
        const { format: _, ...record } = sealer.open<JsonObject>(token as string, options);
        return sealer.seal(format === undefined ? record : { ...record, format }, options);
      };
    return { store, peer, effects, answer, requestState, withFormat };
  };

  it('flow records of a later release stay unchanged, and a warning names their kind', async () => {
    const { store, peer, effects, answer, requestState, withFormat } = await stage();
    const written = await rewrite(store, /^rounds\/kept\//, withFormat(7));
    expect((await answer(requestState, 'sure')).error).toMatchObject({ code: -32603 });
    await expectUntouched(store, written);
    expect(effects).toEqual([]);
    expect(JSON.stringify(peer.warnings)).toContain('a flow context of version 7');
    await peer.close();
  });

  it('flow records without a version count as version 1', async () => {
    const { store, peer, effects, answer, requestState, withFormat } = await stage();
    await rewrite(store, /^rounds\/kept\//, withFormat(undefined));
    const next = await answer(requestState, 'sure');
    expect(effects).toEqual(['deleted']);
    await rewrite(store, /^rounds\/(kept|once|turn)\//, withFormat(undefined));
    expect((await answer(next.result.requestState, 'again')).result).toMatchObject(text('Deleted.'));
    expect(effects).toEqual(['deleted']);
    await peer.close();
  });
});
