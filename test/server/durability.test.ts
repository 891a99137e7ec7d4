import { createValise } from 'mcp-valise/server';
import { openStore } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { noServices, service, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { accept, call, flowPeer, modernCall, name, text } from './flow-peer.ts';
import { MAJORS } from './majors.ts';

const UNKNOWN = { code: -32603, data: { 'dev.valise/outcome': 'unknown' } };

describe.skipIf(noServices)('replicated durability', because('needs servers'), () => {
  it('replicated durability makes only sessions and effects wait for a replica', async () => {
    // A server without any replica, so that whatever waits for one fails.
    const store = await openStore((await service('redis')) as string, {
      prefix: `${uniqueName()}/`,
      durability: 'replicated',
      timeout: 0.3,
    });
    onTestFinished(() => store.close());
    const valise = createValise({
      name: 'test',
      store,
      sessions: { mode: 'stored' },
      flows: { mode: 'stored' },
      events: { warning() {} },
    });
    let effects = 0;
    const peer = await flowPeer(
      MAJORS[1],
      async (_, flow) => {
        await flow.ask('who', name);
        return text(String(await flow.once('charge', () => ++effects)));
      },
      {
        valise,
        also(server) {
          server.registerTool('jar', {}, (async () => {
            valise.jar.session.set('n', 1);
            return text('kept');
          }) as never);
        },
      },
    );
    expect((await peer.say({ ...modernCall(), method: 'dev.valise/sessions/create' })).error).toMatchObject(
      UNKNOWN,
    );
    expect((await peer.say(call({}, { params: { name: 'jar', arguments: {} } }))).result).toMatchObject(
      text('kept'),
    );
    const { requestState } = (await peer.say(modernCall())).result;
    const answer = modernCall({}, { requestState, inputResponses: { who: accept({}) } });
    expect((await peer.say(answer)).error).toMatchObject({ code: -32603 });
    expect(effects, 'no effect before its mark is safe').toBe(0);
    await peer.close();
  });

  it('createValise() accepts replicated durability for a store that is given by its URL', async () => {
    const warnings: string[] = [];
    const valise = createValise({
      name: 'test',
      store: (await service('postgres')) as string,
      durability: 'replicated',
      sessions: { mode: 'stored' },
      events: { warning: ({ what }) => warnings.push(what) },
    });
    const peer = await flowPeer(MAJORS[1], () => text('unused'), { valise });
    const { error } = await peer.say({ ...modernCall(), method: 'dev.valise/sessions/create' });
    expect(error).toMatchObject({ code: -32603, data: { code: 'store-failed' } });
    expect(warnings.join()).toMatch(/synchronous/);
    await peer.close();
    await valise.close();
    expect(() => createValise({ name: 'test', durability: 'twice' as never })).toThrow(/replicated/);
  });
});
