import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  type ClientStateStore,
  type ClientValise,
  type HttpOptions,
  LeaveOpen,
  openValise,
} from 'mcp-valise/client';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callText } from '../e2e/hosts.ts';
import { askable, RESOLVE, stage } from '../e2e/rounds-stage.ts';
import { KINDS, type Kind, openHosts, setting, stateOf } from './hosts.ts';
import { openSessionHost, type SessionHost, saying, sessionOf } from './sessions-host.ts';
import { ask, MAJORS, signIn, vaultStage } from './vault.ts';

const URL_ = 'https://notes.example.com/mcp';
const info = { name: 'accounts', version: '1.0.0' };

function clientOf({ major, era }: Kind): ClientV2 {
  if (major === 'v1') return new ClientV1(info) as unknown as ClientV2;
  return new ClientV2(info, {
    versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' },
  });
}

/** A token that names its user, as many authorization servers make them. */
function jwt(sub: string, nonce: string): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'none' })}.${part({ iss: 'https://as.example.com', sub, nonce })}.c2ln`;
}

interface Provider {
  token: string;
  tokens(): { access_token: string; token_type: string };
}

/** The ways in which a host says who its user is. */
const WAYS = {
  'a URL with headers': (token: string) => ({ headers: { authorization: `Bearer ${token}` } }),
  'requestInit.headers of an SDK transport': (token: string) => ({
    requestInit: { headers: { Authorization: `Bearer ${token}` } },
  }),
  'an API key in requestInit.headers': (token: string) => ({
    requestInit: { headers: { 'X-Api-Key': token } },
  }),
  'the authProvider of an SDK transport': (token: string) => ({ authProvider: providerOf(token) }),
};

function providerOf(token: string): Provider {
  return {
    token,
    tokens() {
      return { access_token: this.token, token_type: 'Bearer' };
    },
    redirectUrl: 'http://127.0.0.1/callback',
    clientMetadata: { redirect_uris: [] },
    clientInformation: () => undefined,
  } as Provider;
}

describe.each(KINDS)('stored state of one user of a $kind client', (kind) => {
  let host: SessionHost;
  let store: Store;
  const opened: { valise: ClientValise; client: ClientV2 }[] = [];
  beforeEach(async () => {
    host = await openSessionHost(kind);
    store = memoryStore();
    if (kind.era === 'legacy') host.sessionId = 'transport-1';
  });
  afterEach(async () => {
    await leave();
    await host.close();
  });

  const leave = async (): Promise<void> => {
    for (const { client, valise } of opened.splice(0)) {
      await client.close();
      await valise.close();
    }
  };

  /** A new process: what it keeps from the one before is in the store. */
  const enter = async (options: object): Promise<{ valise: ClientValise; client: ClientV2 }> => {
    await leave();
    const valise = await openValise({ store, secrets: memoryStore() });
    const client = clientOf(kind);
    opened.push({ valise, client });
    const Transport = kind.major === 'v1' ? HttpV1 : HttpV2;
    const isOwn = 'headers' in options;
    const kept = { jarLifetime: 'kept' } as const;
    const ways = { ...options, fetch: host.fetch };
    if (isOwn) await valise.connect(client, URL_, { ...(ways as HttpOptions), ...kept });
    else await valise.connect(client, new Transport(new URL(URL_), ways as never) as never, kept);
    return { valise, client };
  };

  /** Takes a note in the diary, whose server says whose it is in every kind of state. Everything that was sent comes back. */
  const note = async ({ valise, client }: { valise: ClientValise; client: ClientV2 }, user: string) => {
    host.answer = ({ meta }) => {
      const sent = sessionOf(meta);
      const own = sent && saying(kind.era, { sessionId: sent.sessionId, state: `diary of ${user}` });
      const jar = setting(kind.era, {
        session: { who: `session of ${user}` },
        server: { who: `jar of ${user}` },
      });
      return { _meta: { ...jar._meta, ...own?._meta } };
    };
    const diary = await valise.sessions(client).named('diary');
    await diary.run(() => client.callTool({ name: 'note' }));
    await client.callTool({ name: 'note' });
    host.answer = () => ({});
    return diary.id;
  };
  const sentSince = (from: number): string => JSON.stringify(host.seen.slice(from));

  it.each(Object.entries(WAYS))(
    '[S-05] A client does not send the state of one user for another: %s',
    async (_, way) => {
      const first = await note(await enter(way('token-of-ann')), 'ann');
      const from = host.seen.length;
      const other = await enter(way('token-of-bob'));
      const second = await note(other, 'bob');
      expect(second).not.toBe(first);
      expect(sentSince(from)).not.toContain('of ann');
      expect(sentSince(from)).not.toContain(first);
      // Only then there is an `initialize`: the transport's session is not gone on in.
      if (kind.era === 'legacy')
        expect(host.seen.slice(from).map(({ method }) => method)).toContain('initialize');
      // The tokens are nowhere in the store.
      for (const key of (await store.list('')).keys)
        expect(JSON.stringify([key, await store.get(key)])).not.toContain('token-of');
    },
  );

  it('[S-05][J-11] A user who signs in again gets the stored state back', async () => {
    const way = WAYS['a URL with headers'];
    const first = await note(await enter(way('token-of-ann')), 'ann');
    await note(await enter(way('token-of-bob')), 'bob');
    const from = host.seen.length;
    expect(await note(await enter(way('token-of-ann')), 'ann')).toBe(first);
    expect(sentSince(from)).toContain('jar of ann');
    expect(sentSince(from)).not.toContain('of bob');
  });

  it('[S-05] Two tokens that name the same subject belong to the same user', async () => {
    const way = WAYS['a URL with headers'];
    const first = await note(await enter(way(jwt('ann', '1'))), 'ann');
    expect(await note(await enter(way(jwt('ann', '2'))), 'ann')).toBe(first);
    expect(await note(await enter(way(jwt('bob', '3'))), 'bob')).not.toBe(first);
  });

  it('[S-05] The user stays the same when a provider renews the token during a connection', async () => {
    const provider = providerOf('token-1');
    const connection = await enter({ authProvider: provider });
    const first = await note(connection, 'ann');
    provider.token = 'token-2';
    await connection.client.callTool({ name: 'note' });
    expect(await note(await enter({ authProvider: providerOf('token-2') }), 'ann')).toBe(first);
  });

  it('[S-05] The state of a user ends when the user signs out, whether or not the token stays the same', async () => {
    const way = WAYS['a URL with headers'];
    const connection = await enter(way('token-of-ann'));
    const first = await note(connection, 'ann');
    expect(await connection.valise.connections.logout(URL_)).toBe(true);
    expect(await connection.valise.sessions.kept()).toEqual([]);
    expect(connection.valise.jar.list({ scope: 'session' })).toEqual([]);
    const from = host.seen.length;
    expect(await note(await enter(way('token-of-ann')), 'ann')).not.toBe(first);
    // What is left is what the seed has stay: server scope, for the same user.
    expect(JSON.stringify(host.seen[from])).not.toContain('session of ann');
    const later = host.seen.length;
    await note(await enter(way('token-of-bob')), 'bob');
    expect(sentSince(later)).not.toContain('of ann');
  });

  it('[S-05] State stays separate if two users are connected at once and one client serves both in turn', async () => {
    const valise = await openValise({ store });
    const client = clientOf(kind);
    const other = clientOf(kind);
    opened.push({ valise, client }, { valise, client: other });
    const as = (user: string) => ({ headers: { authorization: `Bearer ${user}` }, fetch: host.fetch });
    await valise.connect(client, URL_, as('ann'));
    await valise.connect(other, URL_, as('bob'));
    const first = await note({ valise, client }, 'ann');
    expect(await note({ valise, client: other }, 'bob')).not.toBe(first);
    await client.close();
    const from = host.seen.length;
    await valise.connect(client, URL_, as('cid'));
    expect(await note({ valise, client }, 'cid')).not.toBe(first);
    expect(sentSince(from)).not.toMatch(/of (ann|bob)/);
  });
});

it.each(KINDS)(
  '[S-05] Work that a $kind client starts before its user signs in continues, and is not sent without a user again',
  async (kind) => {
    const hosts = await openHosts();
    const store = memoryStore();
    const sets = (state: { session?: object; server?: object }) => {
      hosts.respond = ({ method }) => (method === 'tools/call' ? setting(kind.era, state) : {});
    };
    const enter = async (host: ClientStateStore) => {
      const valise = await openValise({ store });
      const client = clientOf(kind);
      await valise.connect(client, URL_, { store: host, fetch: hosts.fetch });
      const leave = async (): Promise<void> => {
        await client.close();
        await valise.close();
      };
      return { client, leave };
    };
    const tokens: string[] = [];
    const { client, leave } = await enter(holding(tokens));
    sets({ session: { cart: 1 }, server: { visits: 'of nobody' } });
    await client.callTool({ name: 'one' });
    tokens.push('token-of-ann');
    sets({});
    await client.callTool({ name: 'two' });
    sets({ server: { visits: 'of ann' } });
    await client.callTool({ name: 'three' });
    expect(stateOf(hosts.last().meta)).toEqual({ session: { cart: 1 } });
    await client.callTool({ name: 'four' });
    expect(stateOf(hosts.last().meta)).toEqual({ session: { cart: 1 }, server: { visits: 'of ann' } });
    await leave();
    sets({});
    const nobody = await enter(holding([]));
    await nobody.client.callTool({ name: 'five' });
    expect(stateOf(hosts.last().meta)).toEqual({ server: { visits: 'of nobody' } });
    await nobody.leave();
    await hosts.close();
  },
);

/** A store of a host that has these tokens, and keeps nothing else. */
function holding(tokens: readonly string[]): ClientStateStore {
  const nothing = () => undefined;
  return {
    setSessionId: nothing,
    getSessionId: nothing,
    clearSessionId: nothing,
    setAccessToken: nothing,
    getAccessToken: () => (tokens[0] === undefined ? undefined : { accessToken: tokens[0] }),
    clearAccessToken: nothing,
    setServerMetadata: nothing,
    getServerMetadata: nothing,
    clearServerMetadata: nothing,
  };
}

it('[S-05] A question for one user is not answered for another, and a sign-out deletes it', async () => {
  const server = await stage({ sdk: 'v2', instances: 1 });
  const url = server.urls[0] as URL;
  const store = memoryStore();
  const as = async (token: string) => {
    const valise = await openValise({ store });
    const client = askable('v2', 'modern', () => {
      throw new LeaveOpen();
    });
    await valise.connect(client, url, { headers: { 'x-api-key': token } });
    return { valise, client };
  };
  const ann = await as('ann');
  await expect(callText(ann.client, 'update_work_item', RESOLVE)).rejects.toThrow(/waits for an answer/);
  await ann.client.close();
  await ann.valise.close();
  const bob = await as('bob');
  const [round] = await bob.valise.pending.list();
  const answer = bob.valise.pending.answer(round?.id as string, { action: 'decline' });
  await expect(answer).rejects.toMatchObject({ code: 'other-account' });
  await bob.valise.connections.logout(url);
  expect(await bob.valise.pending.list()).toEqual([]);
  await bob.client.close();
  await bob.valise.close();
  await server.close();
});

describe.each(MAJORS)('sign-ins with a $major client', ({ make }) => {
  const at = vaultStage();
  const secrets = memoryStore();

  const enter = async (name: string) => {
    const valise = await openValise({ store: at.store, secrets, allowLocal: true });
    const client = make();
    at.opened.push({ valise, client });
    const redirect = async (page: URL): Promise<void> => void (await signIn(page, { name }));
    await valise.connect(client, at.vault.url, { fetch: at.vault.fetch, auth: { redirect } });
    return { valise, client };
  };
  const bodies: string[] = [];
  beforeEach(() => {
    bodies.length = 0;
    at.vault.intercept = async (url, init) => {
      if (typeof init.body === 'string')
        bodies.push(`${new Headers(init.headers).get('mcp-session-id')} ${init.body}`);
      const message = typeof init.body === 'string' ? (JSON.parse(init.body) as Record<string, unknown>) : {};
      if (message['method'] !== 'tools/call' || !new Headers(init.headers).has('authorization'))
        return undefined;
      const response = await fetch(url, init);
      if (!response.ok) return response;
      const who = /user|ann|bob/.exec(await response.text())?.[0];
      const _meta = { 'modelcontextprotocol.io/state/server': { who: `jar of ${who}` } };
      return Response.json({ jsonrpc: '2.0', id: message['id'], result: { content: [], _meta } });
    };
  });

  it('[S-05] State survives token refreshes and new sign-ins, and ends with a sign-out', async () => {
    const ann = await enter('ann');
    await ask(ann.client, 'whoami');
    expect(ann.valise.jar.list()).toHaveLength(1);
    await at.vault.revoke('AccessToken');
    await ask(ann.client, 'whoami');
    expect(at.vault.short()).toContain('refresh_token');
    expect(bodies.at(-1)).toContain('jar of ');
    await at.vault.revoke('AccessToken');
    await at.vault.revoke('RefreshToken');
    await ask(ann.client, 'whoami');
    expect(bodies.at(-1)).toContain('jar of ');
    await ann.client.close();
    await ann.valise.connections.logout(at.vault.url, { fetch: at.vault.fetch });
    bodies.length = 0;
    const bob = await enter('bob');
    await ask(bob.client, 'whoami');
    expect(bodies.join('\n')).not.toContain('jar of');
  });

  it('[S-05] A connection is not resumed for another user who signs in after a sign-out', async () => {
    const ann = await enter('ann');
    await ask(ann.client, 'whoami');
    await ann.valise.connections.logout(at.vault.url, { fetch: at.vault.fetch });
    await expect(ask(ann.client, 'whoami')).rejects.toMatchObject({ code: 'other-account' });
    await expect(ask(ann.client, 'whoami')).rejects.toMatchObject({ code: 'other-account' });
    const again = await enter('bob');
    await ask(again.client, 'whoami');
  });
});
