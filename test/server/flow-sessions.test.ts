import { generateKey } from 'mcp-valise/seal';
import { createValise, type FlowMode, type SessionsOptions } from 'mcp-valise/server';
import { memoryStore, type Store, ValiseError } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import {
  accept,
  call,
  type FlowPeer,
  flowPeer,
  modernCall,
  name,
  ours,
  text,
  type Wire,
} from './flow-peer.ts';
import { MAJORS } from './majors.ts';

interface Session {
  readonly sessionId: string;
  readonly state?: string;
}

/** How a client makes its call, and makes it again with its answer. */
interface Way {
  readonly carrier: string;
  readonly capabilities: object;
  readonly key: string;
  readonly method: (verb: string) => string;
  first(session?: Session): Wire;
  retry(asked: Wire, session?: Session): Wire;
}

const ada = accept({ name: 'Ada' });
const OURS = { elicitation: {}, extensions: { 'dev.valise/sessions': {} } };

const within = (message: Wire, key: string, session: Session | undefined): Wire => ({
  ...message,
  params: {
    ...message.params,
    _meta: {
      ...message.params._meta,
      ...(session && { [key]: { sessionId: session.sessionId, state: session.state } }),
    },
  },
});

const MODERN: Way = {
  carrier: 'requestState',
  capabilities: OURS,
  key: 'dev.valise/session',
  method: (verb) => `dev.valise/sessions/${verb}`,
  first: (session) => within(modernCall({}, {}, OURS), MODERN.key, session),
  retry: ({ result }, session) =>
    within(
      modernCall({}, { requestState: result.requestState, inputResponses: { who: ada } }, OURS),
      MODERN.key,
      session,
    ),
};

const dependent = (carrier: 'dependent-shared' | 'dependent-each'): Way => {
  const key = 'io.modelcontextprotocol/session';
  return {
    carrier,
    capabilities: { ...ours(carrier), experimental: { sessions: {} } },
    key,
    method: (verb) => `sessions/${verb}`,
    first: (session) => within(call(), key, session),
    retry: ({ dependent_requests: { state, requests } }, session) =>
      within(
        call(
          {},
          {
            dependent_responses:
              state === undefined
                ? { responses: [{ state: requests[0].state, result: ada }] }
                : { state, responses: [{ result: ada }] },
          },
        ),
        key,
        session,
      ),
  };
};

const WAYS = [MODERN, dependent('dependent-shared'), dependent('dependent-each')];
const KEPT: readonly { readonly rounds: FlowMode; readonly sessions: SessionsOptions['mode'] }[] = [
  { rounds: 'carried', sessions: 'sealed' },
  { rounds: 'stored', sessions: 'stored' },
];

const REFUSED = {
  code: -32602,
  message: 'Invalid or expired requestState',
  data: { reason: 'invalid_request_state' },
};

describe.each(MAJORS)('a round of an SDK $major server with sessions', (major) => {
  describe.each(WAYS)('($carrier)', (way) => {
    describe.each(KEPT)('rounds $rounds, sessions $sessions', ({ rounds, sessions }) => {
      const keys = generateKey();
      const store = memoryStore();
      const valise = () =>
        createValise({ name: 'test', keys, store, flows: { mode: rounds }, sessions: { mode: sessions } });
      const stage = async (): Promise<{ readonly peer: FlowPeer; readonly ran: string[] }> => {
        const made = valise();
        const ran: string[] = [];
        const peer = await flowPeer(
          major,
          async (_, flow) => {
            const session = made.session();
            const answer = (await flow.ask('who', name)) as { name: string };
            ran.push(session?.id ?? 'none');
            session?.set('who', answer.name);
            return text(`${answer.name} in ${session?.id ?? 'none'}`);
          },
          { valise: made, capabilities: way.capabilities },
        );
        return { peer, ran };
      };
      const begin = async (peer: FlowPeer, verb = 'create', parent?: Session): Promise<Session> => {
        const message = {
          jsonrpc: '2.0',
          id: verb,
          method: way.method(verb),
          params: { _meta: way.first().params._meta },
        };
        return (await peer.say(within(message, way.key, parent))).result.session;
      };
      const sessionless = undefined;

      it('a round is answered in the session that it was asked in, or in none if it was asked in none, on any instance', async () => {
        const { peer } = await stage();
        const { peer: other } = await stage();
        const session = await begin(peer);
        for (const [at, where] of [
          [session, session.sessionId],
          [sessionless, 'none'],
        ] as const) {
          const done = await other.say(way.retry(await peer.say(way.first(at)), at));
          expect(done.result).toMatchObject(text(`Ada in ${where}`));
        }
        await peer.close();
        await other.close();
      });

      it('[R-10] a round is refused in another session, in a fork, and if only one of question and answer has a session', async () => {
        const { peer, ran } = await stage();
        const a = await begin(peer);
        const b = await begin(peer);
        const fork = await begin(peer, 'fork', a);
        for (const [asked, answered] of [
          [a, b],
          [a, fork],
          [a, sessionless],
          [sessionless, a],
        ] as const) {
          peer.rejected.length = 0;
          const refused = await peer.say(way.retry(await peer.say(way.first(asked)), answered));
          expect(refused.error).toEqual(REFUSED);
          expect(peer.rejected).toMatchObject([{ family: 'flows', reason: 'wrong-binding' }]);
        }
        expect(ran).toEqual([]);
        await peer.close();
      });

      it('a round continues if its session has changed in between', async () => {
        const { peer, ran } = await stage();
        const session = await begin(peer);
        const asked = await peer.say(way.first(session));
        const { result } = await peer.say(way.retry(await peer.say(way.first(session)), session));
        const changed = { ...session, ...result._meta[way.key] };
        expect((await peer.say(way.retry(asked, changed))).result).toMatchObject(
          text(`Ada in ${session.sessionId}`),
        );
        expect(ran).toEqual([session.sessionId, session.sessionId]);
        await peer.close();
      });
    });
  });
});

describe.each(MAJORS)('a round of an SDK $major server whose session could not be saved', (major) => {
  /** A flow that charges once its question is answered, and then waits until `meanwhile` has had its way. */
  const stage = async (
    options: SessionsOptions,
    meanwhile: (peer: FlowPeer, session: Session) => unknown,
  ) => {
    const store = memoryStore();
    const refuses = { writes: false };
    const faulty = new Proxy(store, {
      get: (_, name: 'put') => {
        if (name !== 'put') return (store[name] as () => void).bind(store);
        return (...args: Parameters<Store['put']>) =>
          refuses.writes && args[0].startsWith('sessions/')
            ? Promise.reject(new ValiseError('store-full', 'The disk is full.'))
            : store.put(...args);
      },
    });
    const valise = createValise({ name: 'test', store: faulty, sessions: { mode: 'stored', ...options } });
    let effects = 0;
    let session: Session;
    let runs = 0;
    const add = (): number => {
      const n = Number(valise.session()?.get('n') ?? 0) + 1;
      valise.session()?.set('n', n);
      return n;
    };
    const peer = await flowPeer(
      major,
      async (_, flow) => {
        valise.session()?.get('n');
        const answer = (await flow.ask('who', name)) as { name: string };
        await flow.once('charge', () => ++effects);
        if (++runs === 1) await meanwhile(other, session);
        return text(`${answer.name} ${add()}`);
      },
      { valise },
    );
    const other = await flowPeer(major, () => text(String(add())), { valise });
    session = (await other.say({ ...MODERN.first(), method: MODERN.method('create') })).result.session;
    const again = MODERN.retry(await peer.say(MODERN.first(session)), session);
    return {
      peer,
      again,
      refuses,
      effects: () => effects,
      close: () => Promise.all([peer.close(), other.close()]),
    };
  };

  it('a conflict does not use up a round: the same answer is accepted again, and nothing is done twice', async () => {
    const { peer, again, effects, close } = await stage({ onConflict: 'fail' }, async (other, session) => {
      expect((await other.say(MODERN.first(session))).result).toMatchObject(text('1'));
    });
    expect((await peer.say(again)).error).toMatchObject({
      code: -31045,
      message: 'Session conflict',
      data: { 'dev.valise/outcome': 'not-done' },
    });
    expect((await peer.say(again)).result).toMatchObject(text('Ada 2'));
    expect(effects()).toBe(1);
    expect((await peer.say(again)).result).toMatchObject(text('Ada 2'));
    expect(effects()).toBe(1);
    const inputResponses = { a: { action: 'accept', content: { name: 'another' } } };
    const other = { ...again, params: { ...again['params'], inputResponses } };
    expect((await peer.say(other)).error).toEqual(REFUSED);
    expect(peer.rejected).toMatchObject([{ reason: 'replayed' }]);
    await close();
  });

  it('a failing store does not use up a round', async () => {
    const { peer, again, refuses, effects, close } = await stage({}, () => {
      refuses.writes = true;
    });
    expect((await peer.say(again)).error).toMatchObject({
      code: -32603,
      message: 'Internal error: the server could not work on the request.',
      data: { 'dev.valise/outcome': 'not-done' },
    });
    refuses.writes = false;
    expect((await peer.say(again)).result).toMatchObject(text('Ada 1'));
    expect(effects()).toBe(1);
    await close();
  });
});
