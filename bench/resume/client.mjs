// One process of a host, as the bench starts it: signs in if necessary, calls a tool once, and reports it.
//
//   node client.mjs valise URL STORE [DELAY]     with Valise; STORE is empty, or what an earlier process left
//   node client.mjs stock URL - [DELAY]          the SDK alone: its provider keeps everything in memory
const [kind, url, store, delay = '0'] = process.argv.slice(2);

/** A `fetch` to a server with a round-trip delay of `delay` ms. */
const far = async (input, init) => {
  if (delay !== '0') await new Promise((resolve) => setTimeout(resolve, Number(delay)));
  return fetch(input, init);
};

/** Signs in as a user would, without delay: follows the redirects, with cookies, up to the address `until`. */
async function signIn(page, until) {
  const cookies = new Map();
  for (let at = new URL(page); ; ) {
    if (at.href.startsWith(until)) return at;
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ');
    const response = await far(at, { redirect: 'manual', headers: { cookie } });
    await response.text();
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      cookies.set(name, value);
    }
    at = new URL(response.headers.get('location'), at);
  }
}

const info = { name: 'bench', version: '1.0.0' };
const BACK = 'https://host.example.com/back';

async function withValise() {
  const { Client } = await import('@modelcontextprotocol/client');
  const { openValise } = await import('../../dist/client/index.js');
  const valise = await openValise({ store, keys: process.env.VALISE_KEYS, secrets: 'store' });
  const client = new Client(info);
  const auth = { redirectUrl: BACK, redirect: (page) => signIn(page, BACK) };
  await valise.connect(client, url, { fetch: far, auth });
  return client;
}

async function stock() {
  const { Client, StreamableHTTPClientTransport, UnauthorizedError } = await import(
    '@modelcontextprotocol/client'
  );
  const kept = {};
  let page;
  const authProvider = {
    redirectUrl: BACK,
    clientMetadata: {
      client_name: 'bench',
      redirect_uris: [BACK],
      grant_types: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_method: 'none',
    },
    clientInformation: () => kept.client,
    saveClientInformation: (client) => void (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: (tokens) => void (kept.tokens = tokens),
    saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
    codeVerifier: () => kept.verifier,
    saveDiscoveryState: (state) => void (kept.discovery = state),
    discoveryState: () => kept.discovery,
    redirectToAuthorization: (to) => void (page = to),
  };
  const transport = () => new StreamableHTTPClientTransport(new URL(url), { authProvider, fetch: far });
  const first = transport();
  const client = new Client(info);
  try {
    await client.connect(first);
    return client;
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
  }
  await first.finishAuth((await signIn(page, BACK)).searchParams);
  const again = new Client(info);
  await again.connect(transport());
  return again;
}

const client = await (kind === 'stock' ? stock() : withValise());
const { content } = await client.callTool({ name: 'increment', arguments: {} });
process.stdout.write(`${content[0].text}\n`);
