/**
 * The authorization server of the vault: `oidc-provider` on a store of Valise, so that registrations, grants and tokens
 * survive a restart. Anybody may sign in under any name; it is an example.
 *
 * People sign in on a page. A program that follows the redirects (with cookies, and without asking for HTML) is signed in
 * at once, under the name in `login_hint`, else as `tester`:
 *
 *     curl -sL -b '' "$SIGN_IN_PAGE"
 */
import { createHash, createPublicKey, generateKeyPairSync, randomBytes, verify } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Json, Store } from 'mcp-valise/store';
import type { Adapter, AdapterPayload, Configuration, JWKS, Provider } from 'oidc-provider';
import { pathOf } from './serve-http.ts';

/** Checks who may use the vault. */
export interface Guard {
  /** Answers requests that belong to signing in. Returns whether the request was one. */
  serve(host: string, request: IncomingMessage, response: ServerResponse): Promise<boolean>;
  /** Returns who sent the request, or undefined if the token is missing or not valid. */
  check(host: string, request: IncomingMessage): Promise<AuthInfo | undefined>;
  /** Says where to get a token. */
  refuse(host: string, response: ServerResponse): void;
}

/** Who is signed in, as both SDKs have it. */
export interface AuthInfo {
  readonly token: string;
  readonly clientId: string;
  readonly scopes: string[];
  readonly expiresAt: number;
  readonly extra: Record<string, unknown>;
}

const METADATA = '/.well-known/oauth-protected-resource/mcp';

/** Opens the door for tokens that live for `ttl` seconds. */
export function openGuard(store: Store, ttl: number): Guard {
  let opened: Promise<Provider> | undefined;
  const provider = (host: string): Promise<Provider> => {
    opened ??= openProvider(host, store, ttl);
    return opened;
  };
  return {
    async serve(host, request, response) {
      const path = pathOf(request);
      if (path === '/mcp') return false;
      if (path === METADATA) {
        const metadata = {
          resource: `${host}/mcp`,
          authorization_servers: [host],
          scopes_supported: ['vault'],
        };
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata));
      } else if (path?.startsWith('/interaction/')) await interact(await provider(host), request, response);
      else await (await provider(host)).callback()(request, response);
      return true;
    },
    async check(host, request) {
      const [scheme = '', token = ''] = request.headers.authorization?.split(' ') ?? [];
      const { AccessToken } = await provider(host);
      const found = await AccessToken.find(token);
      if (!found || found.isExpired || found.aud !== `${host}/mcp`) return undefined;
      // A token that is bound to a key (RFC 9449) comes with a proof that its sender has the key.
      if (scheme.toLowerCase() !== (found.jkt === undefined ? 'bearer' : 'dpop')) return undefined;
      if (found.jkt !== undefined && !isProven(request, token, found.jkt)) return undefined;
      return {
        token,
        clientId: found.clientId ?? '',
        scopes: [...found.scopes],
        expiresAt: found.exp ?? 0,
        extra: { iss: host, sub: found.accountId },
      };
    },
    refuse(host, response) {
      const challenge = `Bearer resource_metadata="${host}${METADATA}", scope="vault"`;
      response.writeHead(401, { 'www-authenticate': challenge }).end();
    },
  };
}

/** Whether the request proves that its sender has the key with this thumbprint. An example: replays are not looked for. */
function isProof({ headers, method }: IncomingMessage, token: string, thumbprint: string): boolean {
  const proof = String(headers['dpop']);
  const [head = '', body = '', signature = ''] = proof.split('.');
  const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString());
  const { crv, kty, x, y } = read(head).jwk;
  const digest = (text: string) => createHash('sha256').update(text).digest('base64url');
  const { htm, ath, iat } = read(body);
  const key = createPublicKey({ key: { crv, kty, x, y }, format: 'jwk' });
  return (
    digest(JSON.stringify({ crv, kty, x, y })) === thumbprint &&
    verify(
      'sha256',
      Buffer.from(`${head}.${body}`),
      { key, dsaEncoding: 'ieee-p1363' },
      Buffer.from(signature, 'base64url'),
    ) &&
    htm === method &&
    ath === digest(token) &&
    Math.abs(Date.now() / 1000 - iat) < 60
  );
}

function isProven(request: IncomingMessage, token: string, thumbprint: string): boolean {
  try {
    return isProof(request, token, thumbprint);
  } catch {
    // What cannot be read proves nothing.
    return false;
  }
}

async function openProvider(issuer: string, store: Store, ttl: number): Promise<Provider> {
  const { Provider } = await import('oidc-provider').catch((cause: unknown) => {
    throw new Error('--with-auth needs the package oidc-provider: npm install oidc-provider', { cause });
  });
  const { jwks, cookies } = await secretsOf(store);
  const resource = `${issuer}/mcp`;
  const configuration: Configuration = {
    adapter: (name) => storeAdapter(store, name),
    jwks,
    cookies: { keys: cookies },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    scopes: ['openid', 'vault'],
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: 'vault',
          audience: resource,
          accessTokenTTL: ttl,
          accessTokenFormat: 'opaque',
        }),
      },
    },
    pkce: { methods: ['S256'], required: () => true },
    // As in the field: a refresh token is good for one use, and using it twice ends the grant.
    rotateRefreshToken: true,
    issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    findAccount: (_ctx, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
    ttl: {
      AccessToken: ttl,
      IdToken: ttl,
      Grant: 30 * 86_400,
      Interaction: 3600,
      Session: 86_400,
      RefreshToken: 30 * 86_400,
    },
  };
  return new Provider(issuer, configuration);
}

/** Signs in whoever asks, and takes their consent for given. */
async function interact(
  provider: Provider,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { params } = await provider.interactionDetails(request, response);
  const isPerson = request.headers.accept?.includes('text/html') ?? false;
  if (isPerson && request.method === 'GET') {
    response
      .writeHead(200, {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': "default-src 'none'",
      })
      .end(PAGE);
    return;
  }
  const form = request.method === 'POST' ? new URLSearchParams(await text(request)) : undefined;
  const accountId = form?.get('name') || String(params['login_hint'] ?? 'tester');
  const grant = new provider.Grant({ accountId, clientId: String(params['client_id']) });
  const scope = String(params['scope'] ?? 'vault');
  grant.addOIDCScope(scope);
  grant.addResourceScope(String(params['resource'] ?? `${provider.issuer}/mcp`), scope);
  const consent = { grantId: await grant.save() };
  await provider.interactionFinished(request, response, { login: { accountId }, consent });
}

const PAGE = `<!doctype html>
<title>The vault</title>
<h1>Sign in to the vault</h1>
<form method="post"><label>Your name <input name="name" required autofocus></label> <button>Sign in</button></form>
`;

/** Keys that are made once, and kept: tokens and cookies of before a restart stay good. */
async function secretsOf(store: Store): Promise<{ readonly jwks: JWKS; readonly cookies: string[] }> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256' };
  const made = { jwks: { keys: [key] }, cookies: [randomBytes(32).toString('base64url')] };
  await store.put('vault/auth/secrets', made as unknown as Json, { ifAbsent: true });
  return (await store.get('vault/auth/secrets'))?.value as never;
}

/** Where oidc-provider keeps its things. */
function storeAdapter(store: Store, model: string): Adapter {
  const key = (id: string) => `vault/auth/${model}/${id}`;
  const index = (kind: string, id: string) => `vault/auth/${kind}/${id}`;
  const read = async (at: string): Promise<AdapterPayload | undefined> =>
    (await store.get(at))?.value as AdapterPayload | undefined;
  return {
    async upsert(id, payload, expiresIn) {
      const life = expiresIn ? { ttl: expiresIn } : {};
      await store.put(key(id), payload as unknown as Json, life);
      if (payload.uid) await store.put(index('uid', payload.uid), id, life);
      if (payload.grantId)
        await store.put(index('grant', `${payload.grantId}/${model}/${id}`), key(id), life);
    },
    find: (id) => read(key(id)),
    async findByUid(uid) {
      const id = (await store.get(index('uid', uid)))?.value;
      return typeof id === 'string' ? read(key(id)) : undefined;
    },
    async findByUserCode() {
      return undefined;
    },
    async consume(id) {
      const entry = await store.get(key(id));
      if (!entry) return;
      const used = { ...(entry.value as object), consumed: Math.floor(Date.now() / 1000) };
      const left =
        entry.expiresAt === undefined ? {} : { ttl: Math.max(1, (entry.expiresAt - Date.now()) / 1000) };
      await store.put(key(id), used as unknown as Json, left);
    },
    async destroy(id) {
      await store.delete(key(id));
    },
    async revokeByGrantId(grantId) {
      const { keys } = await store.list(index('grant', `${grantId}/`));
      for (const name of keys) {
        const at = (await store.get(name))?.value;
        if (typeof at === 'string') await store.delete(at);
        await store.delete(name);
      }
    },
  };
}
