import type { SessionsOptions } from 'mcp-valise/server';
import { describe, expect, it, vi } from 'vitest';
import { kits } from '../conformance/kit.ts';
import { because } from '../skip.ts';
import {
  connect,
  count,
  errorOf,
  makeServer,
  type SessionClient,
  STAGES,
  type Wire,
} from './sessions-tool.ts';

const LISTEN = 'dev.valise/listen';
const UPDATED = 'notifications/resources/updated';
const REFUSED = { code: -32600, data: { code: 'access-denied' } };

describe.each(STAGES)('mayListen on $stage', (at) => {
  const { method, sent, required } = at;

  const open = async () => {
    const asked: Parameters<NonNullable<SessionsOptions['mayListen']>>[0][] = [];
    const { valise } = makeServer(count, {
      principal: () => ({ subject: 'ann' }),
      sessions: {
        mayListen: async (listener) => {
          asked.push(listener);
          return listener.resources.every((uri) => !uri.startsWith('secret://'));
        },
      },
    });
    return { valise, asked, client: await connect(valise, at) };
  };
  const listen = (client: SessionClient, session: Wire | undefined, listening: object) =>
    client.request(method.listen, { _meta: { ...(session && sent(session)), [LISTEN]: listening } });
  const updates = ({ heard }: SessionClient) => heard.filter((each) => each.method === UPDATED);

  it('mayListen receives the principal, the session and the resources', async () => {
    const { client, asked } = await open();
    const session = await client.create();
    await listen(client, session, { poll: true, resources: ['notes://a', 'notes://b'] });
    await listen(client, undefined, { poll: true });
    await client.request('resources/subscribe', { uri: 'notes://c', _meta: sent(session) });
    const principal = { subject: 'ann' };
    expect(asked).toEqual([
      { principal, session: session.sessionId, resources: ['notes://a', 'notes://b'] },
      { principal, session: undefined, resources: [] },
      { principal, session: session.sessionId, resources: ['notes://c'] },
    ]);
  });

  it('a listener that names a resource that mayListen refuses receives nothing', async () => {
    const { client, valise } = await open();
    const session = await client.create();
    for (const where of [session, undefined]) {
      for (const poll of [true, false])
        expect(
          errorOf(await listen(client, where, { poll, resources: ['notes://a', 'secret://b'] })),
        ).toMatchObject(REFUSED);
    }
    void listen(client, session, {});
    await vi.waitFor(() => expect(client.heard).toHaveLength(1));
    await valise.notify(UPDATED, { uri: 'secret://b' });
    await valise.sessions.notify(session.sessionId, UPDATED, { uri: 'notes://last' });
    await vi.waitFor(() => expect(client.heard.length).toBeGreaterThan(1));
    expect(updates(client).map(({ params }) => params?.['uri'])).toEqual(['notes://last']);
  });

  it('mayListen refuses a subscription before any handler runs', async () => {
    const { client } = await open();
    const taken: string[] = [];
    // The newer revision has no such method: there it is Valise's own, within a session.
    if (at.era === 'legacy') kits[at.major.major].takeSubscriptions(client.server, (uri) => taken.push(uri));
    const session = await client.create();
    const subscribe = (uri: string, where?: Wire) =>
      client.request('resources/subscribe', { uri, ...(where && { _meta: sent(where) }) });
    expect(errorOf(await subscribe('secret://b', session))).toMatchObject(REFUSED);
    expect(await subscribe('notes://a', session)).toMatchObject({ result: {} });
    if (at.era === 'legacy') expect(errorOf(await subscribe('secret://b'))).toMatchObject(REFUSED);
    expect(taken).toEqual(at.era === 'legacy' ? ['notes://a'] : []);
  });

  it('an error that mayListen throws is sent to the client unchanged', async () => {
    const { valise } = makeServer(count, {
      sessions: {
        mayListen: () => {
          throw Object.assign(new Error('Not for you.'), { code: -32050 });
        },
      },
    });
    const client = await connect(valise, at);
    expect(errorOf(await listen(client, undefined, {}))).toMatchObject({
      code: -32050,
      message: 'Not for you.',
    });
  });

  it('a listener without a session cannot name a resource that requires one', async () => {
    const { client, valise } = await open();
    valise.sessions.require({ resource: 'notes://*' });
    const asked = { poll: true, resources: ['other://a', 'notes://a'] };
    expect(errorOf(await listen(client, undefined, asked))).toMatchObject(required);
    expect(await listen(client, await client.create(), asked)).toMatchObject({ result: {} });
  });

  it.runIf(at.era === 'legacy')(
    'a subscriber without session support gets a default session',
    because('resources/subscribe exists before 2026-07-28 only'),
    async () => {
      const { valise } = makeServer(count);
      valise.sessions.require({ resource: 'notes://*' });
      const client = await connect(valise, at, {});
      const taken: unknown[] = [];
      kits[at.major.major].takeSubscriptions(client.server, (uri) =>
        taken.push([uri, valise.session()?.implicit]),
      );
      expect(await client.request('resources/subscribe', { uri: 'notes://a' })).toMatchObject({ result: {} });
      expect(taken).toEqual([['notes://a', true]]);
    },
  );
});
