import { createValise } from 'mcp-valise/server';
import { openStore, reseal } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { generateKey } from '../../src/seal/index.ts';
import { noServices, service, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { accept, flowPeer, modernCall, name, text } from './flow-peer.ts';
import { MAJORS } from './majors.ts';
import { tool } from './state-tool.ts';

describe.skipIf(noServices)('records of a server in Redis', because('needs Redis'), () => {
  it('unlisted records are in no index, and are still found when keys change', async () => {
    const [url, prefix] = [(await service('redis')) as string, `${uniqueName()}/`];
    const [old, next] = [generateKey(), generateKey()];
    const store = await openStore(url, { prefix, keys: old });
    onTestFinished(() => store.close());
    const valise = createValise({
      name: 'test',
      store,
      sessions: { mode: 'stored', onEnd() {} },
      flows: { mode: 'stored' },
      events: { warning() {} },
    });
    const peer = await flowPeer(
      MAJORS[1],
      async (_, flow) => {
        await flow.ask('who', name);
        return text(await flow.once('charge', () => 'done'));
      },
      { valise },
    );
    expect((await peer.say({ ...modernCall(), method: 'dev.valise/sessions/create' })).result).toBeDefined();
    const { requestState } = (await peer.say(modernCall())).result;
    // Other tests share this Redis, so a page may hold none of the keys of this one.
    const named = async (family: RegExp): Promise<string[]> => {
      const found: string[] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await store.scan!('', { limit: 10_000, ...(cursor !== undefined && { cursor }) });
        found.push(...page.keys.filter((key) => family.test(key)));
        cursor = page.cursor;
        if (cursor === undefined) return found;
      }
    };
    // Removed some time after the answer.
    expect(await named(/rounds\/kept\//)).not.toEqual([]);
    const answer = modernCall({}, { requestState, inputResponses: { who: accept({}) } });
    expect((await peer.say(answer)).result).toMatchObject(text('done'));
    const carriesNone = await tool(
      MAJORS[1],
      ({ server }) => server.set('kept', 1),
      { name: 'test', store, principal: () => ({ subject: 'ann' }) },
      {},
    );
    await carriesNone.call('work');
    await peer.close();

    const { keys: listed } = await store.list('');
    expect(listed.filter((key) => !key.includes('/due/'))).toEqual([]);
    const all = await named(/^(?!.*rounds\/kept\/)/);
    for (const family of [/\/record\//, /rounds\/turn\//, /rounds\/once\//, /state/])
      expect(
        all.filter((key) => family.test(key)),
        String(family),
      ).not.toEqual([]);

    const rotating = await openStore(url, { prefix, keys: `${next},${old}` });
    expect(await reseal(rotating)).toBeGreaterThanOrEqual(all.length);
    await rotating.close();
    const rotated = await openStore(url, { prefix, keys: next });
    onTestFinished(() => rotated.close());
    for (const key of all) expect(await rotated.get(key), key).toBeDefined();
  });
});
