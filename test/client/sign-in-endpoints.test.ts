import { openValise } from 'mcp-valise/client';
import { type Json, memoryStore, type Store } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { oauthServer, type Says } from './oauth-server.ts';
import { MAJORS } from './vault.ts';

type Make = (typeof MAJORS)[number]['make'];

interface Tried {
  /** The URLs that requests went to, without their queries. */
  readonly sent: readonly string[];
  /** The pages that were shown. */
  readonly pages: readonly URL[];
  readonly error: { readonly code?: unknown; readonly message: string };
}

/** Has a client connect to a server that says `says`, on a network of which nothing is real, until it fails. */
async function connectTo(
  make: Make,
  server: string,
  says: Says = {},
  { redirects = {}, store = memoryStore() }: { redirects?: Record<string, string>; store?: Store } = {},
): Promise<Tried> {
  const { origin } = new URL(server);
  const answer = oauthServer(origin, says);
  const sent: string[] = [];
  const pages: URL[] = [];
  const valise = await openValise({ store, insecurePlaintext: true });
  onTestFinished(() => valise.close());
  const network = async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(input);
    const name = `${url.origin}${url.pathname}`;
    sent.push(name);
    const to = redirects[name];
    if (to === undefined) return answer(url, init.method ?? 'GET');
    return init.redirect === 'manual'
      ? new Response(null, { status: 302, headers: { location: to } })
      : network(to, init);
  };
  const redirect = (page: URL) => {
    pages.push(page);
    const back = new URL(page.searchParams.get('redirect_uri') ?? '');
    back.search = `?state=${page.searchParams.get('state')}&error=access_denied`;
    return back;
  };
  const auth = { redirect, redirectUrl: 'http://127.0.0.1:1/callback' };
  const connecting = valise.connect(make(), server, { fetch: network, auth });
  const error = await connecting.then(
    () => new Error('It was let in.'),
    (why: Error) => why,
  );
  return { sent, pages, error };
}

/** As `connectTo`, for something that must not be followed. */
async function expectRefused(make: Make, server: string, says: Says, host: string): Promise<string> {
  const { sent, pages, error } = await connectTo(make, server, says);
  expect(error).toMatchObject({ code: 'sign-in-insecure' });
  expect(sent.filter((url) => new URL(url).host === host)).toEqual([]);
  expect(pages).toEqual([]);
  return error.message;
}

const SERVER = 'https://mcp.example.com/mcp';

/** Every spelling of a place that a server on the internet has no business with. */
const INSIDE = [
  'https://127.0.0.1',
  'https://127.1',
  'https://2130706433',
  'https://0x7f000001',
  'https://0177.0.0.1',
  'https://0',
  'https://0.0.0.0',
  'https://localhost',
  'https://LOCALHOST',
  'https://localhost.',
  'https://db.localhost',
  'https://localhost.localdomain',
  'https://[::1]',
  'https://[::]',
  'https://[::ffff:127.0.0.1]',
  'https://[::ffff:7f00:1]',
  'https://[::127.0.0.1]',
  'https://[64:ff9b::7f00:1]',
  'https://[2002:7f00:1::]',
  'https://10.1.2.3',
  'https://172.16.0.1',
  'https://172.31.255.255',
  'https://192.168.1.1',
  'https://[::ffff:192.168.1.1]',
  'https://100.64.0.1',
  'https://169.254.169.254',
  'https://2852039166',
  'https://[fe80::1]',
  'https://[fd00:ec2::254]',
  'https://[fc00::1]',
  'https://224.0.0.1',
  'https://255.255.255.255',
  'https://198.18.0.1',
  'https://intranet',
  'https://intranet.',
  'https://printer.local',
  'https://metadata.google.internal',
  'https://router.home.arpa',
  'https://１２７.0.0.1',
];

describe.each(MAJORS)('a $major client of a server on the internet', ({ make }) => {
  it.each(INSIDE)('A client does not follow its OAuth metadata to %s', async (inside) => {
    const { host } = new URL(inside);
    const message = await expectRefused(make, SERVER, { metadata: { token_endpoint: `${inside}/t` } }, host);
    expect(message).toContain('mcp.example.com');
    expect(message).toContain(`https://${host}/t`);
    expect(message).toContain('token_endpoint');
  });

  it.each([
    'authorization_endpoint',
    'token_endpoint',
    'registration_endpoint',
    'revocation_endpoint',
    'jwks_uri',
  ])('A client refuses a private address and http: as its %s', async (name) => {
    for (const url of ['https://10.0.0.1/x?secret=1', 'http://login.example.com/x']) {
      const message = await expectRefused(make, SERVER, { metadata: { [name]: url } }, new URL(url).host);
      expect(message).toContain(name);
      expect(message).not.toContain('secret');
    }
  });

  it('A client refuses a private authorization server and private resource metadata', async () => {
    const inside = 'https://192.168.0.1';
    await expectRefused(make, SERVER, { authorization_servers: [inside] }, '192.168.0.1');
    await expectRefused(make, SERVER, { resource_metadata: `${inside}/m` }, '192.168.0.1');
    await expectRefused(make, SERVER, { resource_metadata: 'http://127.0.0.1:9000/m' }, '127.0.0.1:9000');
  });

  it('A client follows a redirect to a public address and none to a private one', async () => {
    const metadata = 'https://mcp.example.com/.well-known/oauth-authorization-server';
    const inside = { [metadata]: 'http://169.254.169.254/latest/meta-data/' };
    const refused = await connectTo(make, SERVER, {}, { redirects: inside });
    expect(refused.error).toMatchObject({ code: 'sign-in-insecure' });
    expect(refused.sent.filter((url) => url.includes('169.254'))).toEqual([]);
    const moved = 'https://login.example.com/.well-known/oauth-authorization-server';
    const followed = await connectTo(make, SERVER, {}, { redirects: { [metadata]: moved } });
    expect(followed.sent).toContain(moved);
    expect(followed.pages).toHaveLength(1);
  });

  it('A client sends no registration and no code to the target of a redirected POST', async () => {
    const redirects = { 'https://mcp.example.com/register': 'https://elsewhere.example.com/register' };
    const { sent, pages } = await connectTo(make, SERVER, {}, { redirects });
    expect(sent).toContain('https://mcp.example.com/register');
    expect(sent).not.toContain('https://elsewhere.example.com/register');
    expect(pages).toEqual([]);
  });

  it('A client uses public https: endpoints on its own host and on others', async () => {
    for (const issuer of ['https://mcp.example.com', 'https://login.example.org', 'https://8.8.8.8']) {
      const { pages, error } = await connectTo(make, SERVER, { authorization_servers: [issuer] });
      expect(pages.map(({ origin }) => origin)).toEqual([issuer]);
      expect(error).toMatchObject({ code: 'sign-in-refused' });
    }
  });

  it('A client does not send revoked tokens to a private address that its store names', async () => {
    const store = memoryStore();
    await connectTo(make, SERVER, {}, { store });
    const [key = ''] = (await store.list('credentials/')).keys;
    const kept = (await store.get(key))?.value as { readonly [name: string]: Json };
    const signedIn = {
      ...kept,
      issuer: 'https://mcp.example.com',
      tokens: { access_token: 'a', token_type: 'Bearer', refresh_token: 'r' },
      discovery: { authorizationServerMetadata: { revocation_endpoint: 'https://10.0.0.1/revoke' } },
    };
    await store.put(key, signedIn);
    const valise = await openValise({ store, insecurePlaintext: true });
    onTestFinished(() => valise.close());
    const sent: string[] = [];
    const heard: string[] = [];
    await valise.connections.logout(SERVER, {
      fetch: async (url) => {
        sent.push(String(url));
        return new Response();
      },
      onRevoked: (how) => heard.push(how),
    });
    expect({ heard, sent }).toEqual({ heard: ['refused'], sent: [] });
  });
});

describe.each(MAJORS)('a $major client', ({ make }) => {
  const pagesFor = async (server: string, issuer: string): Promise<readonly string[]> =>
    (await connectTo(make, server, { authorization_servers: [issuer] })).pages.map(({ origin }) => origin);

  it.each([
    [
      'http://127.0.0.1:3000/mcp',
      ['http://127.0.0.1:3001', 'http://localhost:9', 'https://10.0.0.1', 'https://login.example.com'],
    ],
    ['http://localhost:3000/mcp', ['http://[::1]:3001', 'http://localhost:9', 'http://10.0.0.1']],
    ['http://10.0.0.5/mcp', ['http://10.0.0.6', 'https://intranet', 'https://login.example.com']],
    ['https://mcp.corp/mcp', ['https://sso.corp', 'https://10.0.0.1', 'https://login.example.com']],
  ])(
    'A client signs in at %s with an authorization server on an allowed host: %j',
    async (server, issuers) => {
      for (const issuer of issuers) expect(await pagesFor(server, issuer)).toEqual([issuer]);
    },
  );

  it.each([
    ['http://127.0.0.1:3000/mcp', ['http://login.example.com', 'http://169.254.169.254']],
    [
      'http://10.0.0.5/mcp',
      ['http://127.0.0.1:3001', 'https://localhost', 'http://login.example.com', 'https://169.254.169.254'],
    ],
    ['https://mcp.corp/mcp', ['http://sso.corp', 'https://127.0.0.1']],
    [
      'http://mcp.example.com/mcp',
      ['http://mcp.example.com', 'http://login.example.com', 'https://10.0.0.1'],
    ],
  ])('A client does not sign in at %s with an authorization server at any of %j', async (server, issuers) => {
    for (const issuer of issuers) expect(await pagesFor(server, issuer)).toEqual([]);
  });
});
