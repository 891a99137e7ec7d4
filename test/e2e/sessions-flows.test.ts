import { type ClientSession, LeaveOpen, openValise, SessionGoneError } from 'mcp-valise/client';
import type { Carrier } from 'mcp-valise/internal';
import { createValise, type ServerValise, type SessionsOptions } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Example } from '../../examples/serve.ts';
import { because } from '../skip.ts';
import { callText } from './hosts.ts';
import { type Ask, askable, stage } from './rounds-stage.ts';

const byIdAlone = because('a question that is known by its id alone cannot be left open');

interface Way {
  readonly server: 'v1' | 'v2';
  readonly client: 'v1' | 'v2';
  readonly era: 'legacy' | 'modern';
  /** How answers find back; undefined where the era says so. */
  readonly by: Carrier | 'id' | 'requestState';
}

const WAYS: readonly Way[] = [
  { server: 'v2', client: 'v2', era: 'modern', by: 'requestState' },
  { server: 'v1', client: 'v1', era: 'legacy', by: 'state' },
  { server: 'v2', client: 'v2', era: 'legacy', by: 'state' },
  { server: 'v2', client: 'v1', era: 'legacy', by: 'dependent-shared' },
  { server: 'v1', client: 'v2', era: 'legacy', by: 'dependent-each' },
  { server: 'v2', client: 'v2', era: 'legacy', by: 'id' },
  { server: 'v1', client: 'v1', era: 'legacy', by: 'id' },
];

const form = (name: string) => ({
  message: name,
  schema: { type: 'object', properties: { [name]: { type: 'string' } } } as const,
});
const yes: Ask = ({ message }) => ({ action: 'accept', content: { [message]: 'yes' } });
const leave: Ask = () => {
  throw new LeaveOpen();
};

/** A server that takes orders in sessions, and a host of it; both are in this process. */
async function open(
  { server, client, era, by }: Way,
  mode: SessionsOptions['mode'],
  ask = yes,
  store = memoryStore(),
) {
  const orders: string[] = [];
  const asked: string[] = [];
  let valise: ServerValise | undefined;
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const example: Example = {
    name: 'till',
    build({ McpServer, options }) {
      const built = createValise({ name: 'till', ...options });
      valise = built;
      const text = (said: unknown) => ({ content: [{ type: 'text' as const, text: JSON.stringify(said) }] });
      const session = () => {
        const present = built.session();
        if (!present) throw new Error('no session');
        return present;
      };
      const order = built.flow(async (flow) => {
        const n = session().get<number>('n') ?? 0;
        await flow.once('order', () => void orders.push(session().id));
        await released;
        session().set('n', n + 1);
        return text('ordered');
      });
      const wizard = built.flow(async (flow) => {
        await flow.ask('a', form('a'));
        await flow.once('order', () => void orders.push(session().id));
        await flow.ask('b', form('b'));
        session().set('wizard', 'done');
        return text('done');
      });
      const count = async () => {
        const n = (session().get<number>('n') ?? 0) + 1;
        session().set('n', n);
        return text(n);
      };
      const look = async () => text({ n: session().get('n'), wizard: session().get('wizard') });
      return {
        valise: built,
        server: () => {
          const made = built.install(new McpServer({ name: 'till', version: '1.0.0' }));
          for (const [tool, work] of Object.entries({ order, wizard, count, look }))
            made.registerTool(tool, {}, work);
          return made;
        },
      };
    },
  };
  const sessions = { mode };
  const at = await stage({
    sdk: server,
    instances: 1,
    example,
    options: { store, sessions },
  });
  const carriers = by === 'id' ? [] : by === 'requestState' ? undefined : [by];
  const own = await openValise({ store: memoryStore(), ...(carriers && { carriers }) });
  const asking = { ask };
  const host = askable(client, era, (params) => {
    asked.push(params.message);
    return asking.ask(params);
  });
  await own.connect(host, at.urls[0] as URL);
  onTestFinished(async () => {
    await host.close();
    await own.close();
    await at.close();
  });
  return {
    valise: own,
    sessions: own.sessions(host),
    served: valise as ServerValise,
    orders,
    asked,
    asking,
    release,
    call: (session: ClientSession, tool: string) => session.run(() => callText(host, tool)),
  };
}

const WHERE = '$client client, $server server, $era, answers by $by';

describe.each(WAYS)(`a session that is recreated when it is gone (${WHERE})`, (way) => {
  it('[S-14] a recreated session does not repeat a call whose handler has run', async () => {
    const { call, sessions, served, orders, release } = await open(way, 'stored');
    const session = await sessions.create({ onGone: 'recreate' });
    const before = session.id;
    const ordering = call(session, 'order').catch((error: unknown) => error);
    await vi.waitFor(() => expect(orders).toHaveLength(1));
    await served.sessions.revoke(before);
    release();
    const error = await ordering;
    expect(error).toBeInstanceOf(SessionGoneError);
    expect(error).toMatchObject({ sessionId: before, hasBegun: true });
    expect(orders).toEqual([before]);
    // The next call finds the new one.
    expect(await call(session, 'count')).toBe('1');
    expect([session.isGone, session.id === before]).toEqual([false, false]);
  });

  it('[S-14] a recreated session does not repeat a call whose handler is about to run again', async () => {
    const store = memoryStore();
    const { call, sessions, served, orders, release } = await open(way, 'stored', yes, store);
    const session = await sessions.create({ onGone: 'recreate' });
    const before = session.id;
    const ordering = call(session, 'order').catch((error: unknown) => error);
    await vi.waitFor(() => expect(orders).toHaveLength(1));
    await call(session, 'count');
    // The session ends after the handler has met what was changed in between, and before it starts over.
    const get = store.get.bind(store);
    let looks = 0;
    vi.spyOn(store, 'get').mockImplementation(async (key) => {
      const entry = await get(key);
      if ((entry?.value as { id?: unknown } | undefined)?.id !== before || ++looks !== 2) return entry;
      await served.sessions.revoke(before);
      return get(key);
    });
    release();
    expect(await ordering).toMatchObject({ code: 'session-gone', hasBegun: true });
    expect(orders).toEqual([before]);
  });

  it.each(['stored', 'sealed'] as const)(
    '[S-14] a recreated session does not repeat a call that has asked a question (%s)',
    async (mode) => {
      const { call, sessions, served, orders, asked, asking, valise } = await open(way, mode);
      const session = await sessions.create({ onGone: 'recreate' });
      const before = session.id;
      asking.ask = async (params) => {
        if (params.message === 'b') await served.sessions.revoke(before);
        return yes(params);
      };
      const error = await call(session, 'wizard').catch((error: unknown) => error);
      expect(error).toBeInstanceOf(SessionGoneError);
      expect(error).toMatchObject({ sessionId: before, hasBegun: true });
      expect([asked, orders]).toEqual([['a', 'b'], [before]]);
      expect(await valise.pending.list()).toEqual([]);
      expect(await call(session, 'count')).toBe('1');
    },
  );
});

describe.each(WAYS)(`a call whose session is deleted while it asks (${WHERE})`, (way) => {
  it.each([{ label: 'kept' }, { onGone: 'recreate' as const }])(
    'a call whose session is deleted while it asks fails, and leaves no pending question: %o',
    async (options) => {
      const { call, sessions, orders, asked, asking, valise } = await open(way, 'sealed');
      const session = await sessions.create(options);
      asking.ask = async (params) => {
        if (params.message === 'b') await session.delete();
        return yes(params);
      };
      const error = await call(session, 'wizard').catch((error: unknown) => error);
      expect(error).toBeInstanceOf(SessionGoneError);
      expect(error).toMatchObject({ hasBegun: true });
      expect([asked, orders]).toEqual([['a', 'b'], [session.id]]);
      expect(await valise.pending.list()).toEqual([]);
    },
  );

  it.skipIf(way.by === 'id')('a pending question whose session is deleted is gone', byIdAlone, async () => {
    const { call, sessions, valise, asking } = await open(way, 'sealed', leave);
    const session = await sessions.create();
    await expect(call(session, 'wizard')).rejects.toThrow(/waits|left open/);
    const [round] = await valise.pending.list();
    await session.delete();
    asking.ask = yes;
    await expect(valise.pending.answer(round!.id)).rejects.toThrow(SessionGoneError);
    expect(await valise.pending.list()).toEqual([]);
  });
});

describe.each(WAYS)(`a session in which calls are made while another one asks (${WHERE})`, (way) => {
  describe.each(['sealed', 'stored'] as const)('%s', (mode) => {
    it.each([1, 4])(
      '[S-21] a session keeps the changes of a call that asks and of %i calls in between',
      async (changes) => {
        const { call, sessions, asking } = await open(way, mode);
        const session = await sessions.create();
        await call(session, 'count');
        asking.ask = async (params) => {
          for (let n = 0; n < changes; n++) await call(session, 'count');
          return yes(params);
        };
        await call(session, 'wizard');
        const n = 1 + 2 * changes;
        expect(JSON.parse(await call(session, 'look'))).toEqual({ n, wizard: 'done' });
      },
    );

    it.skipIf(way.by === 'id')(
      '[S-21] a session keeps the changes of both calls if the question was left open',
      byIdAlone,
      async () => {
        const { call, sessions, asking, valise } = await open(way, mode, leave);
        const session = await sessions.named('till');
        await expect(call(session, 'wizard')).rejects.toThrow(/waits|left open/);
        for (const asked of ['a', 'b']) {
          await call(session, 'count');
          const [round] = await valise.pending.list();
          const answer = { action: 'accept', content: { [asked]: 'yes' } };
          await valise.pending.answer(round!.id, answer);
        }
        expect(JSON.parse(await call(session, 'look'))).toEqual({ n: 2, wizard: 'done' });
        asking.ask = yes;
        expect(await call(session, 'wizard')).toBe('"done"');
        expect(await call(session, 'count')).toBe('3');
      },
    );
  });
});
