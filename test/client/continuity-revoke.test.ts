import { type ClientValise, openValise } from 'mcp-valise/client';
import { describe, expect, it } from 'vitest';
import { revoke } from '../../src/client/oauth/token-requests.ts';
import { ask, MAJORS, signIn, vaultStage } from './vault.ts';

/** Nothing listens there: the host catches the answer itself. */
const BACK = 'http://127.0.0.1:9/callback';

const stage = vaultStage();

/** Registers a client as its operator does, before anybody uses it. */
async function register(method: 'none' | 'client_secret_basic' | 'client_secret_post') {
  const response = await fetch(new URL('/reg', stage.vault.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      redirect_uris: [BACK],
      grant_types: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_method: method,
      scope: 'vault',
    }),
  });
  const registered = (await response.json()) as { client_id: string; client_secret?: string };
  const { client_id: id, client_secret: secret } = registered;
  const issuer = new URL(stage.vault.url).origin;
  return { registered, client: { id, issuer, ...(secret !== undefined && { secret }) } };
}

type OwnClient = Awaited<ReturnType<typeof register>>['client'];

/** What the authorization server still knows of tokens. */
const left = async () => (await stage.vault.store.list('vault/auth/RefreshToken/')).keys.length;

describe.each(MAJORS)('tokens of a $major client with a pre-registered client', ({ make }) => {
  async function start(own: OwnClient): Promise<ClientValise> {
    const valise = await openValise({ store: stage.store });
    const client = make();
    stage.opened.push({ valise, client });
    const redirect = (page: URL) => signIn(page, { until: BACK });
    const auth = { redirect, client: own, redirectUrl: BACK };
    await valise.connect(client, stage.vault.url, { fetch: stage.vault.fetch, auth });
    await ask(client, 'increment');
    return valise;
  }

  const logout = async (valise: ClientValise, client?: OwnClient): Promise<string[]> => {
    const heard: string[] = [];
    const onRevoked = (how: string) => heard.push(how);
    expect(
      await valise.connections.logout(stage.vault.url, { fetch: stage.vault.fetch, client, onRevoked }),
    ).toBe(true);
    return heard;
  };

  const texts = async () => {
    const { keys } = await stage.store.list('');
    return JSON.stringify(await Promise.all(keys.map((key) => stage.store.get(key))));
  };

  it('logout() revokes the tokens of a client without a secret', async () => {
    const { client } = await register('none');
    const valise = await start(client);
    expect(await left()).toBe(1);
    expect(await logout(valise)).toEqual(['revoked']);
    expect(await left()).toBe(0);
  });

  it('logout() sends nothing without the client secret, which is never stored, and revokes the tokens with it', async () => {
    const { client } = await register('client_secret_basic');
    const valise = await start(client);
    expect(await texts()).not.toContain(client.secret);
    const elsewhere = { ...client, issuer: 'https://auth.example.com' };
    for (const own of [undefined, elsewhere, { ...client, id: 'another' }]) {
      const keys = (await stage.store.list('credentials/')).keys;
      const before = await stage.store.get(keys[0] ?? '');
      stage.vault.sent.length = 0;
      expect(await logout(valise, own)).toEqual(['needs-secret']);
      expect(stage.vault.sent).toEqual([]);
      await stage.store.put(keys[0] ?? '', before?.value ?? null);
    }
    expect(await left()).toBe(1);
    expect(await logout(valise, client)).toEqual(['revoked']);
    expect(await left()).toBe(0);
  });

  it('logout() uses the given secret for the tokens even if the client had registered itself before', async () => {
    const itself = make();
    const first = await openValise({ store: stage.store });
    stage.opened.push({ valise: first, client: itself });
    const auth = { redirect: async (page: URL) => void (await signIn(page)) };
    await first.connect(itself, stage.vault.url, { fetch: stage.vault.fetch, auth });
    await itself.close();
    const [key = ''] = (await stage.store.list('credentials/')).keys;
    const { tokens: _, ...rest } = (await stage.store.get(key))!.value as { tokens?: object };
    await stage.store.put(key, rest as never);
    await stage.vault.revoke('AccessToken');
    await stage.vault.revoke('RefreshToken');
    const { client } = await register('none');
    const valise = await start(client);
    const by: unknown[] = [];
    stage.vault.intercept = (_url, { body }) => {
      if (body instanceof URLSearchParams && body.has('token')) by.push(body.get('client_id'));
      return undefined;
    };
    expect(await logout(valise)).toEqual(['revoked']);
    expect(by).toEqual([client.id, client.id]);
  });
});

describe('the client secret', () => {
  const tokens = { access_token: 'a', token_type: 'Bearer' };
  const issuer = 'https://auth.example.com';

  /** What is sent where the authorization server takes secrets in these ways. */
  async function sent(client: object, methods?: readonly string[]) {
    const metadata = {
      revocation_endpoint: `${issuer}/revoke`,
      ...(methods && { revocation_endpoint_auth_methods_supported: methods }),
    };
    const discovery = { authorizationServerMetadata: metadata } as never;
    let init: RequestInit = {};
    const base = async (_url: string | URL, given: RequestInit = {}) => {
      init = given;
      return new Response();
    };
    const registration = { client_id: 'me', ...client };
    expect(await revoke({ issuer, tokens, client: registration, discovery }, base)).toBe('revoked');
    const basic = new Headers(init.headers).get('authorization');
    const form = new URLSearchParams(init.body as URLSearchParams).get('client_secret');
    return { basic: basic !== null, form };
  }

  const POST = 'client_secret_post';
  const BASIC = 'client_secret_basic';

  it.each([
    ['in the header by default', {}, undefined, true],
    ['in the form if it is registered so', { token_endpoint_auth_method: POST }, [BASIC, POST], false],
    ['in the header if it is registered so', { token_endpoint_auth_method: BASIC }, [POST], true],
    ['in the form if the server supports nothing else', {}, [POST], false],
    ['in the header if the server supports both', {}, [POST, BASIC], true],
  ])('The client secret is sent %s', async (_, client, methods, basic) => {
    expect(await sent({ ...client, client_secret: 'x' }, methods)).toEqual({
      basic,
      form: basic ? null : 'x',
    });
  });

  it('No client secret is sent by a client that has none or needs none', async () => {
    expect(await sent({})).toEqual({ basic: false, form: null });
    const none = { client_secret: 'x', token_endpoint_auth_method: 'none' };
    expect(await sent(none)).toEqual({ basic: false, form: null });
  });
});
