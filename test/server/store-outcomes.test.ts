import { createValise } from 'mcp-valise/server';
import { redisStore } from 'mcp-valise/store/redis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { noServices, service, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { layWire } from '../store/proxy.ts';
import { call, flowPeer, type Wire as Message, modernCall, text } from './flow-peer.ts';
import { MAJORS } from './majors.ts';

const NOT_DONE = {
  code: -32603,
  message:
    'Internal error: the server cannot reach its store at the moment. Nothing was saved. Try again later.',
  data: { 'dev.valise/outcome': 'not-done' },
};
const UNKNOWN = {
  code: -32603,
  message:
    'Internal error: the server could not finish the request, and does not know whether it took effect. Check before you send it again.',
  data: { 'dev.valise/outcome': 'unknown' },
};

/** How each era names the session of a call. */
const ERAS = {
  'before 2026-07-28': {
    create: (): Message => ({ ...call(), method: 'sessions/create', params: {} }),
    count: (session: unknown): Message =>
      call({}, { params: { _meta: { 'io.modelcontextprotocol/session': session }, name: 'count' } }),
  },
  '2026-07-28': {
    create: (): Message => ({ ...modernCall(), method: 'dev.valise/sessions/create' }),
    count: (session: unknown): Message => {
      const message = modernCall({}, { name: 'count' });
      const _meta = { ...message['params']._meta, 'dev.valise/session': session };
      return { ...message, params: { ...message['params'], _meta } };
    },
  },
};

describe.skipIf(noServices).each(MAJORS)(
  'a store behind an SDK $major server that is cut off while a call is saved',
  because('needs Redis'),
  (major) => {
    const stage = async (create: Message) => {
      const wire = await layWire((await service('redis')) ?? '');
      const store = await redisStore(wire.url, { namespace: uniqueName(), timeout: '1s' });
      const valise = createValise({
        name: 'test',
        store,
        sessions: { mode: 'stored', onConflict: 'fail' },
        events: { warning: () => {} },
      });
      let cut = async (): Promise<unknown> => undefined;
      const peer = await flowPeer(major, () => text('unused'), {
        valise,
        also(server) {
          server.registerTool('count', {}, (async () => {
            const session = valise.session();
            const n = Number(session?.get('n') ?? 0) + 1;
            session?.set('n', n);
            // Between reading and saving.
            await cut();
            return text(String(n));
          }) as never);
        },
      });
      onTestFinished(async () => {
        await peer.close();
        await valise.close();
        await store.close();
        await wire.close();
      });
      const { session } = (await peer.say(create)).result;
      const say = async (message: Message, before: () => unknown = () => undefined) => {
        cut = async () => before();
        const answer = await peer.say(message);
        cut = async () => undefined;
        wire.mend();
        return answer;
      };
      return { wire, store, say, session };
    };

    it.each(Object.entries(ERAS))(
      'a lost connection to the store means not done before the write and unknown after it, and nothing is done twice (%s)',
      async (_, { create, count }) => {
        const { wire, store, say, session } = await stage(create());
        const numbered = async (cut?: () => unknown) => {
          const { result, error } = await say(count(session), cut);
          return error ?? Number(result.content[0].text);
        };
        expect(await numbered()).toBe(1);
        const away = () => {
          wire.refuse('closes');
          return expect(store.get('any')).rejects.toMatchObject({ code: 'store-unavailable' });
        };
        expect(await numbered(away)).toMatchObject(NOT_DONE);
        expect(await numbered(), 'it was not done').toBe(2);
        expect(
          await numbered(() => {
            wire.loseReply();
            wire.refuse('stays');
          }),
        ).toMatchObject(UNKNOWN);
        expect(await numbered(), 'it was done, once').toBe(4);
        // A lost reply alone is no failure: the driver asks again, and finds its own write.
        expect(await numbered(() => wire.loseReply())).toBe(5);
        expect(await numbered()).toBe(6);
      },
    );
  },
);
