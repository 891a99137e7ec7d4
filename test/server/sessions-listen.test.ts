import { memoryBus, memoryStore } from 'mcp-valise/store';
import { describe, expect, it, vi } from 'vitest';
import { NotificationLog, since } from '../../src/server/sessions/listen/notification-log.ts';
import { Subscriptions } from '../../src/server/sessions/listen/subscriptions.ts';
import type { Notification } from '../../src/wire/index.ts';
import { kits } from '../conformance/kit.ts';
import { cuttable } from './cuttable-store.ts';
import { resultOf } from './raw-client.ts';
import {
  ALL_STAGES,
  connect,
  count,
  errorOf,
  makeServer,
  type SessionClient,
  STAGES,
  type Stage,
  type Wire,
} from './sessions-tool.ts';

const OURS = { extensions: { 'dev.valise/sessions': {} } };
const LISTEN = 'dev.valise/listen';
const CHANGED = 'notifications/tools/list_changed';
const UPDATED = 'notifications/resources/updated';

/** How the clients of an era listen. */
const listening = ({ method, sent }: Stage) => ({
  /** Opens a stream; its own words of welcome are waited for. */
  async listen(client: SessionClient, session?: Wire, asked?: object) {
    const before = client.heard.length;
    const _meta = { ...(session && sent(session)), ...(asked && { [LISTEN]: asked }) };
    const answer = client.request(method.listen, Object.keys(_meta).length > 0 ? { _meta } : {});
    const id = client.lastId();
    await vi.waitFor(() => expect(client.heard.length).toBeGreaterThan(before));
    return { answer, id, first: client.heard[before] as Notification };
  },
  /** Asks for what has come. */
  poll: async (client: SessionClient, session: Wire | undefined, asked: object = {}) =>
    resultOf(
      await client.request(method.listen, {
        _meta: { ...(session && sent(session)), [LISTEN]: { poll: true, ...asked } },
      }),
    ) as unknown as {
      notifications: Notification[];
      _meta: { [LISTEN]: { cursor: string; missed?: boolean } };
    },
});

const methods = (heard: readonly Notification[]) => heard.map(({ method }) => method);
const tagOf = ({ params }: Notification) =>
  params?._meta?.[LISTEN] as { cursor: string; missed?: boolean } | undefined;

describe.each(ALL_STAGES)('listening on $stage', (at) => {
  const { isOurs, key, method, sent, unknown } = at;
  const { listen, poll } = listening(at);
  // Under our names everybody who listens knows what we add: the place in the stream.
  const place = isOurs ? { [LISTEN]: { cursor: expect.any(String) } } : undefined;
  const open = async (
    options: Parameters<typeof makeServer>[1] = {},
    capabilities: object = at.announces,
  ) => {
    const made = makeServer(
      async (session) => void (await session?.notify(UPDATED, { uri: 'notes://a' })),
      options,
    );
    return { ...made, client: await connect(made.valise, at, capabilities) };
  };

  it('[S-28] [S-29] the listener of a session receives its notifications, with its id and without its state', async () => {
    const { client } = await open();
    const [a, b] = [await client.create(), await client.create()];
    const { first } = await listen(client, a);
    expect(first).toEqual({
      jsonrpc: '2.0',
      method: at.listening,
      params: { _meta: { [key]: { sessionId: a.sessionId }, ...place } },
    });
    await client.in(b);
    await client.in(a);
    await vi.waitFor(() => expect(client.heard).toHaveLength(2));
    expect(client.heard[1]).toEqual({
      jsonrpc: '2.0',
      method: UPDATED,
      params: { uri: 'notes://a', _meta: { [key]: { sessionId: a.sessionId }, ...place } },
    });
  });

  it('[S-28] a listener without a session receives only notifications that belong to no session', async () => {
    const { client, valise } = await open();
    const session = await client.create();
    const { first } = await listen(client);
    const params = place && { params: { _meta: place } };
    expect(first).toEqual({ jsonrpc: '2.0', method: at.listening, ...params });
    await client.in(session);
    await valise.sessions.notify(session.sessionId, CHANGED);
    await valise.notify(CHANGED);
    await vi.waitFor(() => expect(client.heard).toHaveLength(2));
    expect(client.heard[1]).toEqual({ jsonrpc: '2.0', method: CHANGED, ...params });
  });

  it('[S-28] several listeners on one connection receive only their own notifications', async () => {
    const { client, valise } = await open();
    const sessions = [await client.create(), await client.create(), await client.create()];
    for (const session of sessions) await listen(client, session);
    await listen(client);
    const before = client.heard.length;
    for (const { sessionId } of sessions)
      await valise.sessions.notify(sessionId, UPDATED, { uri: sessionId });
    await valise.notify(CHANGED);
    await vi.waitFor(() => expect(client.heard).toHaveLength(before + 4));
    for (const { method, params } of client.heard.slice(before)) {
      const tag = params?._meta?.[key] as { sessionId: string } | undefined;
      expect(tag?.sessionId).toBe(method === CHANGED ? undefined : params?.['uri']);
    }
  });

  it('[S-13] a client cannot listen to the session of somebody else', async () => {
    const { client } = await open();
    const answer = await client.request(method.listen, {
      _meta: sent({ sessionId: 'sess-x', state: 'y' }),
    });
    expect(errorOf(answer)).toEqual(unknown({ sessionId: 'sess-x' }));
  });

  it('[S-28] a listener ends with its session, on cancellation, and when the server closes', async () => {
    const { client, valise } = await open();
    const [a, b] = [await client.create(), await client.create()];
    const [first, second, third] = [await listen(client, a), await listen(client, b), await listen(client)];
    await client.request(method.delete, { _meta: sent(a) });
    expect(await first.answer).toMatchObject({ result: {} });
    await client.notify('notifications/cancelled', { requestId: second.id });
    expect(await second.answer).toMatchObject({ result: {} });
    await valise.sessions.notify(b.sessionId, UPDATED, { uri: 'x' });
    await valise.close();
    expect(await third.answer).toMatchObject({ result: {} });
    expect(methods(client.heard)).not.toContain(UPDATED);
  });

  it('[S-28] a second listener for a session on one connection ends the first', async () => {
    const { client, valise } = await open();
    const session = await client.create();
    const first = await listen(client, session);
    await listen(client, session);
    expect(await first.answer).toMatchObject({ result: {} });
    await valise.sessions.notify(session.sessionId, UPDATED, { uri: 'x' });
    await valise.notify(CHANGED);
    await listen(client);
    expect(client.heard.filter(({ method }) => method === UPDATED)).toHaveLength(1);
  });

  it('[S-28] a poll returns the available notifications and ends', async () => {
    const { client, valise } = await open();
    const session = await client.create();
    await valise.sessions.notify(session.sessionId, UPDATED, { uri: 'one' });
    await valise.notify(CHANGED);
    const first = await poll(client, session);
    expect(first.notifications).toEqual([
      {
        jsonrpc: '2.0',
        method: UPDATED,
        params: {
          uri: 'one',
          _meta: { [key]: { sessionId: session.sessionId }, [LISTEN]: { cursor: expect.any(String) } },
        },
      },
    ]);
    const { cursor } = first._meta[LISTEN];
    expect((await poll(client, session, { after: cursor })).notifications).toEqual([]);
    await valise.sessions.notify(session.sessionId, UPDATED, { uri: 'two' });
    const second = await poll(client, session, { after: cursor });
    expect(second.notifications.map(({ params }) => params?.['uri'])).toEqual(['two']);
    expect(methods((await poll(client, undefined)).notifications)).toEqual([CHANGED]);
  });

  it('[S-28] a poll may wait for the first notification', async () => {
    const { client, valise } = await open();
    const session = await client.create();
    const waiting = poll(client, session, { wait: 20 });
    const empty = await poll(client, session, { wait: 0.05 });
    expect(empty.notifications).toEqual([]);
    await valise.sessions.notify(session.sessionId, UPDATED, { uri: 'one' });
    expect((await waiting).notifications).toHaveLength(1);
  });

  it('a listener ends even if unsubscribing from the bus fails', async () => {
    const left = vi.fn().mockRejectedValue(new Error('the bus is away'));
    const bus = { ...memoryBus(), subscribe: async () => left };
    const { client, valise } = await open({ sessions: { bus } });
    const session = await client.create();
    const { answer } = await listen(client, session);
    const polled = client.request(method.listen, {
      _meta: { ...sent(session), [LISTEN]: { poll: true, wait: 60 } },
    });
    await client.notify('notifications/cancelled', { requestId: client.lastId() });
    expect(await polled).toMatchObject({ result: { notifications: [] } });
    await valise.close();
    expect(await answer).toMatchObject({ result: {} });
    expect(left).toHaveBeenCalledTimes(2);
  });

  it('[S-28] a listener that reconnects receives exactly what it missed', async () => {
    const { client, valise } = await open({}, OURS);
    const session = await client.create();
    const { first, id } = await listen(client, session);
    await valise.sessions.notify(session.sessionId, UPDATED, { uri: '1' });
    await vi.waitFor(() => expect(client.heard).toHaveLength(2));
    const { cursor } = tagOf(client.heard[1] as Notification) as { cursor: string };
    expect(tagOf(first)?.cursor).not.toBe(cursor);
    await client.notify('notifications/cancelled', { requestId: id });
    for (const uri of ['2', '3']) await valise.sessions.notify(session.sessionId, UPDATED, { uri });
    await listen(client, session, { after: cursor });
    await valise.sessions.notify(session.sessionId, UPDATED, { uri: '4' });
    await vi.waitFor(() => expect(client.heard).toHaveLength(6));
    expect(
      client.heard.filter(({ method }) => method === UPDATED).map(({ params }) => params?.['uri']),
    ).toEqual(['1', '2', '3', '4']);
    expect(client.heard.some((one) => tagOf(one)?.missed)).toBe(false);
  });

  it('[S-28] a listener that reconnects too late is told that it missed something', async () => {
    const { client, valise } = await open({}, OURS);
    const session = await client.create();
    await valise.sessions.notify(session.sessionId, UPDATED, { uri: '0' });
    const { cursor } = (await poll(client, session))._meta[LISTEN];
    for (let n = 1; n <= 120; n++)
      await valise.sessions.notify(session.sessionId, UPDATED, { uri: String(n) });
    const late = await poll(client, session, { after: cursor });
    expect(late._meta[LISTEN].missed).toBe(true);
    expect(late.notifications).toHaveLength(100);
    const { first } = await listen(client, session, { after: cursor });
    expect(tagOf(first)).toEqual({ cursor: expect.any(String), missed: true });
    await vi.waitFor(() => expect(client.heard).toHaveLength(101));
    expect(client.heard.at(-1)?.params?.['uri']).toBe('120');
    const other = await poll(client, session, { after: 'other.7' });
    expect(other._meta[LISTEN].missed).toBe(true);
  });

  it('[S-30] an update of a resource is sent to the session that subscribed to it', async () => {
    const { client, valise } = await open();
    const [a, b] = [await client.create(), await client.create()];
    for (const session of [a, b]) await listen(client, session);
    await listen(client);
    const subscribe = (method: string, session?: Wire) =>
      client.request(method, { uri: 'notes://a', ...(session && { _meta: sent(session) }) });
    expect(await subscribe('resources/subscribe', a)).toMatchObject({
      result: { _meta: { [key]: { sessionId: a.sessionId } } },
    });
    const updates = () => client.heard.filter(({ method }) => method === UPDATED);
    await valise.notify(UPDATED, { uri: 'notes://a' });
    await valise.notify(UPDATED, { uri: 'notes://other' });
    await vi.waitFor(() => expect(updates()).toHaveLength(1));
    expect(updates()[0]?.params?._meta).toEqual({ [key]: { sessionId: a.sessionId }, ...place });
    // The SDK's own way of telling goes the same way.
    await (
      client.server.server as unknown as { sendResourceUpdated(p: object): Promise<void> }
    ).sendResourceUpdated({
      uri: 'notes://a',
    });
    await vi.waitFor(() => expect(updates()).toHaveLength(2));
    expect(updates()[1]?.params?._meta).toEqual({ [key]: { sessionId: a.sessionId }, ...place });
    await subscribe('resources/unsubscribe', a);
    await valise.notify(UPDATED, { uri: 'notes://a' });
    await valise.notify(CHANGED);
    await vi.waitFor(() => expect(methods(client.heard)).toContain(CHANGED));
    expect(updates()).toHaveLength(2);
  });

  it('a warning reports an update that cannot be sent because the store is unavailable', async () => {
    const { store, cut } = cuttable();
    const warnings: string[] = [];
    const { client } = await open({ store, events: { warning: ({ what }) => warnings.push(what) } });
    const session = await client.create();
    await client.request('resources/subscribe', { uri: 'notes://a', _meta: sent(session) });
    cut.off = true;
    await (
      client.server.server as unknown as { sendResourceUpdated(p: object): Promise<void> }
    ).sendResourceUpdated({ uri: 'notes://a' });
    await vi.waitFor(() =>
      expect(warnings).toEqual([
        expect.stringContaining('could not be notified that a resource has changed'),
      ]),
    );
  });

  it('[S-30] updates of the resources that a listener names when it opens are sent to its session', async () => {
    const { client, valise } = await open();
    const [a, b] = [await client.create(), await client.create()];
    await listen(client, a, { resources: ['notes://a'] });
    await listen(client, b, { resources: ['notes://b'] });
    for (const uri of ['notes://a', 'notes://b', 'notes://c']) await valise.notify(UPDATED, { uri });
    const updates = () => client.heard.filter(({ method }) => method === UPDATED);
    await vi.waitFor(() => expect(updates()).toHaveLength(2));
    expect(updates().map(({ params }) => [params?.['uri'], params?._meta?.[key]])).toEqual([
      ['notes://a', { sessionId: a.sessionId }],
      ['notes://b', { sessionId: b.sessionId }],
    ]);
  });

  it('[S-36] a second listen request with more resources replaces the first and loses nothing', async () => {
    const { client, valise } = await open({}, { extensions: { 'dev.valise/sessions': {} } });
    const session = await client.create();
    const first = await listen(client, session, { resources: ['notes://a'] });
    const updates = () => client.heard.filter(({ method }) => method === UPDATED);
    await valise.notify(UPDATED, { uri: 'notes://a' });
    await vi.waitFor(() => expect(updates()).toHaveLength(1));
    const { cursor } = tagOf(updates()[0]!) as { cursor: string };
    await valise.notify(UPDATED, { uri: 'notes://b' });
    await listen(client, session, { resources: ['notes://a', 'notes://b'], after: cursor });
    expect(await first.answer).toMatchObject({ result: {} });
    for (const uri of ['notes://b', 'notes://a', 'notes://c']) await valise.notify(UPDATED, { uri });
    await vi.waitFor(() => expect(updates()).toHaveLength(3));
    expect(updates().map(({ params }) => params?.['uri'])).toEqual(['notes://a', 'notes://b', 'notes://a']);
  });

  it.each(['resources/subscribe', 'resources/unsubscribe'])('%s without a uri is refused', async (method) => {
    const { client } = await open();
    const session = await client.create();
    for (const uri of [undefined, ['notes://a'], 7, null]) {
      const refused = errorOf(await client.request(method, { uri, _meta: sent(session) }));
      expect(refused).toEqual({ code: -32602, message: 'Invalid params: wrong-type at params.uri' });
    }
  });

  it('[S-30] an update of a resource subscribed to without a session is sent only to its subscriber', async () => {
    let subject = 'ann';
    const { client: ann, valise } = await open({ principal: () => ({ subject }) });
    const bob = await connect(valise, at);
    await listen(ann, undefined, { resources: ['notes://ann'] });
    subject = 'bob';
    await listen(bob);
    const waiting = poll(bob, undefined, { wait: 20 });
    await valise.notify(UPDATED, { uri: 'notes://ann' });
    await valise.notify(CHANGED);
    for (const { heard } of [ann, bob]) await vi.waitFor(() => expect(methods(heard)).toContain(CHANGED));
    expect(methods(ann.heard)).toEqual([at.listening, UPDATED, CHANGED]);
    expect(methods(bob.heard)).toEqual([at.listening, CHANGED]);
    expect(methods((await waiting).notifications)).toEqual([CHANGED]);
    // Those who come back later hear no more.
    const late = await connect(valise, at);
    await listen(late, undefined, { after: '0' });
    await vi.waitFor(() => expect(methods(late.heard)).toContain(CHANGED));
    expect(methods(late.heard)).toEqual([at.listening, CHANGED]);
    subject = 'ann';
    expect(methods((await poll(ann, undefined)).notifications)).toEqual([UPDATED, CHANGED]);
  });

  it('[S-30] unidentified listeners receive only updates of the resources that each of them named', async () => {
    const { valise } = await open();
    const [a, b] = [
      await connect(valise, at, at.announces, { http: true }),
      await connect(valise, at, at.announces, { http: true }),
    ];
    const resources = ['notes://a'];
    expect((await poll(a, undefined, { resources })).notifications).toEqual([]);
    await valise.notify(UPDATED, { uri: 'notes://a' });
    await valise.notify(CHANGED);
    expect(methods((await poll(a, undefined, { resources })).notifications)).toEqual([UPDATED, CHANGED]);
    expect(methods((await poll(b, undefined)).notifications)).toEqual([CHANGED]);
  });

  it('[S-29] notifications that a handler sends carry the id of its session', async () => {
    const made = makeServer(async () => undefined);
    const client = await connect(made.valise, at);
    client.server.registerTool('log', {}, async () => {
      await (client.server.server as unknown as { notification(n: object): Promise<void> }).notification({
        method: 'notifications/message',
        params: { level: 'info', data: 'x' },
      });
      return { content: [] };
    });
    const session = await client.create();
    await client.in(session, 'log');
    expect(client.heard.find(({ method }) => method === 'notifications/message')?.params?._meta).toEqual({
      [key]: { sessionId: session.sessionId },
    });
  });
});

describe.each(ALL_STAGES)('listening across instances, on $stage', (at) => {
  const { listen, poll } = listening(at);

  it.each([
    ['over a bus', { bus: true }],
    ['through the store alone, a little later', { bus: false }],
  ])('[S-28] [S-34] a listener receives the notifications of other instances %s', async (_, { bus }) => {
    const store = memoryStore();
    const shared = memoryBus();
    const options = { store, sessions: { mode: 'stored' as const, ...(bus && { bus: shared }) } };
    const [one, two] = [makeServer(count, options), makeServer(count, options)];
    const [a, b] = [await connect(one.valise, at), await connect(two.valise, at)];
    const session = await a.create();
    await listen(b, session);
    await listen(b);
    await one.valise.sessions.notify(session.sessionId, UPDATED, { uri: '1' });
    await one.valise.notify(CHANGED);
    const waiting = poll(b, session, { wait: 20, after: 'x.1' });
    await vi.waitFor(() => expect(b.heard).toHaveLength(4), { timeout: 5000 });
    expect(methods(b.heard).sort()).toEqual([at.listening, at.listening, UPDATED, CHANGED].sort());
    expect((await waiting)._meta[LISTEN].missed).toBe(true);
    await one.valise.close();
    await two.valise.close();
  });

  it.each([
    ['over a bus', { bus: true }],
    ['over the store alone', { bus: false }],
  ])(
    '[S-30] an update of a resource is sent only to its subscribers on other instances, %s',
    async (_, { bus }) => {
      const options = { store: memoryStore(), sessions: bus ? { bus: memoryBus() } : {} };
      const [one, two, three] = ['ann', 'bob', 'nobody'].map((subject) =>
        makeServer(count, { ...options, principal: () => ({ subject }) }),
      );
      const [ann, bob] = [await connect(one!.valise, at), await connect(two!.valise, at)];
      await listen(ann, undefined, { resources: ['notes://ann'] });
      await listen(bob, undefined, { resources: ['notes://bob'] });
      for (const uri of ['notes://ann', 'notes://bob']) await three!.valise.notify(UPDATED, { uri });
      await three!.valise.notify(CHANGED);
      for (const [{ heard }, uri] of [[ann, 'notes://ann'] as const, [bob, 'notes://bob'] as const]) {
        await vi.waitFor(() => expect(methods(heard)).toContain(CHANGED), { timeout: 5000 });
        expect(methods(heard)).toEqual([at.listening, UPDATED, CHANGED]);
        expect(heard[1]?.params?.['uri']).toBe(uri);
      }
      for (const { valise } of [one!, two!, three!]) await valise.close();
    },
  );

  it('[S-28] a listener on another instance loses and repeats nothing under parallel notifications', async () => {
    const store = memoryStore();
    const bus = memoryBus();
    const options = { store, sessions: { bus } };
    const servers = [1, 2, 3].map(() => makeServer(count, options));
    const clients = await Promise.all(servers.map(({ valise }) => connect(valise, at, OURS)));
    const session = await clients[0]!.create();
    for (const client of clients) await listen(client, session);
    await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        servers[n % 3]!.valise.sessions.notify(session.sessionId, UPDATED, { uri: String(n) }),
      ),
    );
    for (const client of clients) {
      await vi.waitFor(() => expect(client.heard).toHaveLength(61), { timeout: 5000 });
      const uris = client.heard.slice(1).map(({ params }) => Number(params?.['uri']));
      expect([...uris].sort((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, n) => n));
      expect(uris).toEqual(clients[0]!.heard.slice(1).map(({ params }) => Number(params?.['uri'])));
    }
  });
});

describe.each(STAGES.filter(({ era }) => era === 'legacy'))('unsubscribing on $stage', (at) => {
  it('[S-30] unsubscribing without a session does not affect other subscribers', async () => {
    const { listen } = listening(at);
    const { valise } = makeServer(count);
    const [a, b] = [await connect(valise, at), await connect(valise, at)];
    for (const client of [a, b]) {
      kits[at.major.major].takeSubscriptions(client.server);
      await client.request('resources/subscribe', { uri: 'notes://a' });
      await listen(client);
    }
    await a.request('resources/unsubscribe', { uri: 'notes://a' });
    await valise.notify(UPDATED, { uri: 'notes://a' });
    await valise.notify(CHANGED);
    for (const { heard } of [a, b]) await vi.waitFor(() => expect(methods(heard)).toContain(CHANGED));
    expect(methods(a.heard)).toEqual([at.listening, CHANGED]);
    expect(methods(b.heard)).toEqual([at.listening, UPDATED, CHANGED]);
  });
});

describe('subscriptions to a resource', () => {
  const settings = { maxLifetime: 86_400, maxAnonymousLifetime: 86_400, maxSubscriptions: 100 };
  const make = (over: Set<string>, store = memoryStore()) =>
    new Subscriptions({
      store,
      settings,
      // Only anonymous subscribers without a session are counted there.
      index: undefined as never,
      isUsable: async (id) => !over.has(id),
    });
  const session = (n: number) => ({ scope: `sess-${n}`, owner: undefined });

  it('subscriptions to a resource end with their session', async () => {
    const store = memoryStore();
    const { valise } = makeServer(count, { store });
    const at = STAGES[0];
    const client = await connect(valise, at);
    const [a, b] = [await client.create(), await client.create()];
    for (const session of [a, b]) {
      for (const uri of ['notes://a', 'notes://b'])
        await client.request('resources/subscribe', { uri, _meta: at.sent(session) });
    }
    const keys = async () => (await store.list('')).keys.filter((key) => /\/(subscriber|log)\//.test(key));
    await client.request(at.method.delete, { _meta: at.sent(a) });
    await vi.waitFor(async () => expect(await keys()).toHaveLength(1));
    // Nobody tells a session that is over.
    for (const uri of ['notes://a', 'notes://b']) await valise.notify(UPDATED, { uri });
    expect(await keys()).toHaveLength(2);
  });

  it('subscriptions take little room in the store, however long the URIs are', async () => {
    const store = memoryStore();
    const subscriptions = make(new Set(), store);
    for (let n = 0; n < 20; n++) await subscriptions.add([`notes://${n}/${'x'.repeat(10_000)}`], session(1));
    const { keys } = await store.list('');
    const kept = await Promise.all(keys.map(async (key) => (await store.get(key))?.value));
    expect(JSON.stringify(kept).length).toBeLessThan(10_000);
  });

  it('a subscription is refused if too many usable sessions have one, and none of those is dropped', async () => {
    const over = new Set<string>();
    const subscriptions = make(over);
    for (let n = 0; n < 1000; n++) await subscriptions.add(['notes://a'], session(n));
    await expect(subscriptions.add(['notes://a'], session(1000))).rejects.toMatchObject({
      code: 'limit-reached',
    });
    expect(await subscriptions.scopesOf('notes://a')).toContain('sess-0');
    // Those that have one, and those without a session, need no room.
    await subscriptions.add(['notes://a'], session(0));
    await subscriptions.add(['notes://a'], { scope: '', owner: 'ann' });
    over.add('sess-7');
    over.add('sess-8');
    await subscriptions.add(['notes://a'], session(1000));
    const scopes = await subscriptions.scopesOf('notes://a');
    expect(scopes).toContain('sess-1000');
    expect(scopes).toContain('');
    expect(scopes).not.toContain('sess-7');
  });
});

describe.each(STAGES)('too many subscriptions, on $stage', (at) => {
  it('too many subscriptions are refused with an error, also those of a listen request, and ended sessions make room', async () => {
    const { valise } = makeServer(count, {
      sessions: { mode: 'stored', maxPerPrincipal: 2000, maxAnonymousPerCaller: 2000 },
    });
    const client = await connect(valise, at);
    const subscribe = (session: Wire) =>
      client.request('resources/subscribe', { uri: 'notes://a', _meta: at.sent(session) });
    const sessions = await Promise.all(Array.from({ length: 1001 }, () => client.create()));
    const last = sessions.pop() as Wire;
    for (const session of sessions) await subscribe(session);
    const refused = { code: -32603, data: { code: 'limit-reached' } };
    expect(errorOf(await subscribe(last))).toMatchObject(refused);
    const asked = { _meta: { ...at.sent(last), [LISTEN]: { resources: ['notes://a'] } } };
    expect(errorOf(await client.request(at.method.listen, asked))).toMatchObject(refused);
    await client.request(at.method.delete, { _meta: at.sent(sessions[5] as Wire) });
    expect(await subscribe(last)).toMatchObject({ result: {} });
  });
});

describe('the log of notifications', () => {
  it('the notification log drops old entries and reports that they are missing', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const log = new NotificationLog(memoryStore(), 86_400);
    const first = await log.append('s', UPDATED, undefined);
    const cursor = `${first.gen}.${first.n}`;
    expect(since(await log.read('s'), cursor)).toMatchObject({ entries: [], missed: false });
    await log.append('s', UPDATED, undefined);
    vi.setSystemTime(Date.now() + 11 * 60_000);
    expect(since(await log.read('s'), cursor)).toMatchObject({ entries: [], missed: true });
    vi.useRealTimers();
  });

  it('valise.notify refuses a method that is not a notification', async () => {
    const { valise } = makeServer(count);
    await expect(valise.notify('tools/call')).rejects.toThrow(/is not a notification/);
  });
});
