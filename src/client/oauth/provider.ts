import { createHash, randomBytes, webcrypto } from 'node:crypto';
import { ValiseError } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import type { FetchLike } from '../../edge/fetch.ts';
import { accountOfSignIn } from '../identity/account.ts';
import { loadSdk, type Major } from '../major.ts';
import {
  type CredentialCache,
  type CredentialKeeper,
  type Credentials,
  isSameIssuer,
  type Registration,
  stamped,
  type Tokens,
} from './credentials.ts';
import type { EndpointGuard } from './endpoints.ts';
import type { AuthOptions } from './options.ts';
import type { SignIn } from './sign-in.ts';

interface Issued {
  readonly issuer: string;
}

/** The dependencies of {@link Provider}. */
export interface ProviderParts {
  readonly options: AuthOptions;
  readonly credentialCache: CredentialCache;
  readonly signIn: SignIn;
  readonly endpoints: EndpointGuard;
  /** Sends the user to this page. */
  begin(page: URL): void;
  /** Refreshes tokens that are about to expire. Returns the tokens to use from now on. */
  refresh(credentials: Credentials): Promise<Tokens | undefined>;
  /** Called before tokens are sent. Rejects if they belong to another account than the connection was started for. */
  use(credentials: Credentials): Promise<void>;
  /** Returns the account of the previous tokens, if the credentials do not name it. */
  account(): string | undefined;
  readonly major: Major;
}

/**
 * An `OAuthClientProvider` for both SDK majors, backed by a Valise store. Several flows may run at once (two calls receive
 * a 401 at the same time). The first to reach the sign-in page continues, with its own registration and verifier.
 */
export class Provider {
  readonly #parts: ProviderParts;
  readonly #verifiers = new Map<string, string>();
  readonly #registered = new Map<string, Registration>();
  #wanted: readonly string[] = [];
  #discovery: JsonObject | undefined;
  /** The page that the user has been sent to. */
  #page: URL | undefined;

  /** Absent if there is an existing registration. The SDK must then not register with another authorization server. */
  readonly saveClientInformation?: (client: Registration, at?: Issued) => Promise<void>;

  readonly clientMetadataUrl?: string;

  /** Present only if tokens are bound to a key. SDK v2 signs each request with it. */
  readonly dpop?: () => Promise<DpopSigner>;

  constructor(parts: ProviderParts) {
    this.#parts = parts;
    const { clientMetadataUrl, dpop } = parts.options;
    if (dpop) this.dpop = boundTo(parts.credentialCache, parts.major);
    if (clientMetadataUrl !== undefined) this.clientMetadataUrl = clientMetadataUrl;
    if (!parts.options.client) this.saveClientInformation = (client, at) => this.#register(client, at);
  }

  get redirectUrl(): string {
    return this.#parts.signIn.redirectUrl;
  }

  get clientMetadata() {
    const { clientName = 'Valise', scope, client } = this.#parts.options;
    return {
      client_name: clientName,
      redirect_uris: [this.redirectUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: client?.secret === undefined ? 'none' : 'client_secret_basic',
      ...(scope !== undefined && { scope }),
    };
  }

  state(): string {
    return randomBytes(24).toString('base64url');
  }

  async clientInformation(at?: Issued): Promise<Registration | undefined> {
    const { options, credentialCache } = this.#parts;
    if (options.client) {
      const { id, secret, issuer } = options.client;
      return { client_id: id, issuer, ...(secret !== undefined && { client_secret: secret }) };
    }
    const { client: stored, tokens } = await credentialCache.current();
    const client = this.#asking() ?? stored;
    if (!client || (at && !isSameIssuer(client.issuer, at.issuer))) return undefined;
    const refreshes = tokens?.refresh_token !== undefined && !credentialCache.isDead(tokens);
    if (!this.#page && !refreshes && !this.#fits(client)) return undefined;
    this.#registered.set(client.client_id, client);
    return client;
  }

  /** Whether a registration fits. It is made for one address and scope, so another port or a wider scope may be rejected. */
  #fits({ redirect_uris: uris, scope }: Registration): boolean {
    if (Array.isArray(uris) && !uris.includes(this.redirectUrl)) return false;
    if (typeof scope !== 'string' || scope === '') return true;
    const granted = scope.split(' ');
    return this.#wanted.every((one) => granted.includes(one));
  }

  /** Sets the scopes that the server additionally requires. */
  want(scope: readonly string[]): void {
    this.#wanted = scope;
  }

  /** Returns the registration with which the user has been sent to the sign-in page. */
  #asking(): Registration | undefined {
    return this.#page && this.#registered.get(this.#page.searchParams.get('client_id') ?? '');
  }

  async #register(client: Registration, at?: Issued): Promise<void> {
    const { credentialCache } = this.#parts;
    const stampedClient = { ...client, ...(at && { issuer: at.issuer }) };
    this.#registered.set(client.client_id, stampedClient);
    if (this.#page) return;
    // Another process may have signed in since this flow began.
    await credentialCache.change((now) =>
      now.tokens && credentialCache.isGood(now.tokens) ? undefined : this.#adopt(now, stampedClient),
    );
  }

  /**
   * Replaces the registration. Tokens belong to the registration that received them, and discovery to the authorization server.
   */
  #adopt(now: Credentials, client: Registration): Credentials {
    if (now.client?.client_id === client.client_id) return { ...now, client };
    return {
      client,
      account: now.account,
      subject: now.subject,
      dpop: now.dpop,
      ...(client.issuer !== undefined && { issuer: client.issuer }),
      ...(this.#discovery && { discovery: this.#discovery }),
    };
  }

  async tokens(at?: Issued): Promise<Tokens | undefined> {
    const { credentialCache, refresh, use } = this.#parts;
    const credentials = await credentialCache.current();
    let { tokens } = credentials;
    if (tokens && !credentialCache.isRefused(tokens.access_token) && !credentialCache.isGood(tokens))
      tokens = (await refresh(credentials)) ?? tokens;
    if (!tokens || (at && tokens.issuer !== undefined && !isSameIssuer(tokens.issuer, at.issuer)))
      return undefined;
    await use({ ...credentials, tokens });
    const { expiresAt, ...rest } = tokens;
    if (expiresAt === undefined) return rest;
    // A token that has expired and cannot be refreshed is useless.
    if (expiresAt < Date.now() && rest.refresh_token === undefined) return undefined;
    return { ...rest, expires_in: Math.max(0, Math.floor((expiresAt - Date.now()) / 1000)) };
  }

  async saveTokens(tokens: Tokens, at?: Issued): Promise<void> {
    const { options, credentialCache, signIn, account } = this.#parts;
    const issuer = at?.issuer ?? tokens.issuer;
    const client = this.#asking();
    const { id, secret } = options.client ?? {};
    // A server that does not name the granted scope has granted the requested one.
    const asked = this.#page?.searchParams.get('scope');
    await credentialCache.change((now) => {
      // Refreshed tokens are already stored by then, unless the user has signed out since.
      if (!this.#page || now.tokens?.access_token === tokens.access_token) return undefined;
      const { verifier: _, given: __, ...rest } = client ? this.#adopt(now, client) : now;
      const fresh = stamped({
        ...(asked && { scope: asked }),
        ...tokens,
        ...(issuer !== undefined && { issuer }),
      });
      return {
        ...rest,
        ...(issuer !== undefined && { issuer }),
        ...(this.#discovery && { discovery: this.#discovery }),
        ...(id !== undefined && { given: { id, hasSecret: secret !== undefined } }),
        ...accountOfSignIn([tokens.id_token, tokens.access_token], { account: account(), ...now }),
        tokens: fresh,
      };
    });
    if (!this.#page) signIn.close();
  }

  async redirectToAuthorization(page: URL): Promise<void> {
    const { credentialCache, signIn, begin } = this.#parts;
    const { tokens } = await credentialCache.reload();
    // Another flow or another process may have completed the sign-in meanwhile.
    if (tokens && credentialCache.isGood(tokens)) return;
    // The end of that flow may have closed the listener that this flow's user will come back to.
    await signIn.prepare(page.searchParams.get('redirect_uri') ?? undefined);
    if (this.#page) return;
    begin(page);
    this.#page = page;
  }

  /** Resets the state of a sign-in that has ended. */
  ended(): void {
    this.#page = undefined;
    this.#discovery = undefined;
    this.#verifiers.clear();
    this.#registered.clear();
    this.#parts.signIn.close();
  }

  async saveCodeVerifier(verifier: string): Promise<void> {
    this.#verifiers.set(sha256(verifier), verifier);
    if (!this.#page) await this.#parts.credentialCache.change((now) => ({ ...now, verifier }));
  }

  async codeVerifier(): Promise<string> {
    const challenge = this.#page?.searchParams.get('code_challenge') ?? '';
    return this.#verifiers.get(challenge) ?? (await this.#parts.credentialCache.current()).verifier ?? '';
  }

  async saveDiscoveryState(discovery: object): Promise<void> {
    this.#parts.endpoints.checkDiscovery(discovery);
    const state = JSON.parse(JSON.stringify(discovery)) as JsonObject;
    if (!this.#page) this.#discovery = state;
    await this.#parts.credentialCache.change((now) =>
      now.tokens && !this.#page ? { ...now, discovery: state } : undefined,
    );
  }

  /** Returns the discovery state for a refresh, or for the return from the sign-in page. A new sign-in runs discovery again. */
  async discoveryState(): Promise<JsonObject | undefined> {
    if (this.#page) return this.#discovery;
    const { credentialCache } = this.#parts;
    const { tokens, discovery } = await credentialCache.current();
    if (tokens?.refresh_token === undefined || credentialCache.isDead(tokens)) return undefined;
    // If the refresh fails, the user is sent to the page that this state names, and the return needs it again.
    if (discovery && !this.#page) this.#discovery = discovery;
    return discovery;
  }

  async invalidateCredentials(what: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): Promise<void> {
    const { credentialCache } = this.#parts;
    if (what === 'verifier')
      await credentialCache.change(({ verifier, ...rest }) => (verifier === undefined ? undefined : rest));
    else if (what === 'discovery')
      await credentialCache.change(({ discovery, ...rest }) => (discovery ? rest : undefined));
    else await credentialCache.dropTokens();
    if (what !== 'all' && what !== 'client') return;
    this.#registered.clear();
    // If the tokens are valid, so is the registration: another process has stored both.
    await credentialCache.change(({ client, ...rest }) => (client && !rest.tokens ? rest : undefined));
  }
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256' };

/** SDK v2's `DpopSession`. The type is `never` so that our declarations do not depend on an optional peer. */
export type DpopSigner = never;

/**
 * Returns a function that resolves to the signer for the key that the tokens are bound to (RFC 9449). The key is created on
 * first use and stored with the tokens, because the next process cannot use a bound refresh token without it.
 */
export function boundTo(keeper: Pick<CredentialKeeper, 'change'>, major: Major): () => Promise<DpopSigner> {
  if (major === 'v1')
    throw new ValiseError(
      'invalid-argument',
      'The option dpop needs v2 of the SDK, which signs the requests.',
      {
        next: 'Run: npm install @modelcontextprotocol/client. Or leave the option out.',
      },
    );
  let session: Promise<DpopSigner> | undefined;
  return () => (session ??= sessionOf(keeper));
}

async function sessionOf(keeper: Pick<CredentialKeeper, 'change'>): Promise<DpopSigner> {
  const { DpopSession } = await loadSdk(
    '@modelcontextprotocol/client',
    () => import('@modelcontextprotocol/client'),
  );
  const made = await newKey();
  const { dpop = made } = await keeper.change((now) => (now.dpop ? undefined : { ...now, dpop: made }));
  return (await DpopSession.create({ keyPair: await keyPairOf(dpop) })) as DpopSigner;
}

async function newKey(): Promise<JsonObject> {
  const { privateKey } = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const { kty, crv, x, y, d } = await webcrypto.subtle.exportKey('jwk', privateKey);
  return { kty, crv, x, y, d } as JsonObject;
}

async function keyPairOf({ kty, crv, x, y, d }: JsonObject) {
  const publicJwk = { kty, crv, x, y } as { kty: string; crv: string; x: string; y: string };
  const load = (jwk: object, usage: 'sign' | 'verify') =>
    webcrypto.subtle.importKey('jwk', jwk, ALGORITHM, usage === 'verify', [usage]);
  return {
    privateKey: (await load({ ...publicJwk, d }, 'sign')) as CryptoKey,
    publicKey: (await load(publicJwk, 'verify')) as CryptoKey,
    publicJwk,
    // RFC 7638 requires these members in the order of their names.
    thumbprint: createHash('sha256').update(JSON.stringify({ crv, kty, x, y })).digest('base64url'),
    alg: 'ES256' as const,
  };
}

/** The sign-in functions that both SDK majors export. */
export interface SdkAuth {
  auth(
    provider: object,
    options: {
      readonly serverUrl: URL;
      readonly resourceMetadataUrl?: URL | undefined;
      readonly scope?: string | undefined;
      readonly authorizationCode?: string;
      readonly iss?: string | undefined;
      readonly forceReauthorization?: boolean;
      readonly fetchFn: FetchLike;
    },
  ): Promise<'AUTHORIZED' | 'REDIRECT'>;
  registerClient(
    server: string,
    options: {
      readonly metadata?: unknown;
      readonly clientMetadata: object;
      readonly scope?: string | undefined;
      readonly fetchFn: FetchLike;
    },
  ): Promise<Registration>;
  refreshAuthorization(
    server: string,
    options: {
      readonly metadata?: unknown;
      readonly clientInformation: Registration;
      readonly refreshToken: string;
      readonly resource?: string;
      readonly dpop?: object;
      readonly fetchFn: FetchLike;
    },
  ): Promise<unknown>;
  /** Only v2 has it. */
  withDpopFromProvider(provider: object): (next: FetchLike) => FetchLike;
  extractWWWAuthenticateParams(response: Response): {
    readonly resourceMetadataUrl?: URL;
    readonly scope?: string;
  };
}

/** Loads the functions from the client's SDK major. */
export async function loadAuth(major: Major): Promise<SdkAuth> {
  const loaded: unknown =
    major === 'v2'
      ? await loadSdk('@modelcontextprotocol/client', () => import('@modelcontextprotocol/client'))
      : await loadSdk('@modelcontextprotocol/sdk', () => import('@modelcontextprotocol/sdk/client/auth.js'));
  return loaded as SdkAuth;
}

/** How long identical registration requests share one registration, in milliseconds. */
const SAME_FOR = 5000;

/**
 * Returns a `fetch` that registers a client only once if several requests of a connection find that it is necessary, as
 * v1's stream and call do. Their registrations are identical, and the others would stay unused.
 */
export function registerOnce(base: FetchLike): FetchLike {
  const made = new Map<string, Promise<Response>>();
  return async (url, init = {}) => {
    const { method, body } = init;
    if (method !== 'POST' || typeof body !== 'string' || !body.includes('"redirect_uris"'))
      return base(url, init);
    const key = `${url} ${body}`;
    const forget = (): void => void made.delete(key);
    let registering = made.get(key);
    if (!registering) {
      made.set(key, (registering = base(url, init)));
      registering.then(({ ok }) => (ok ? setTimeout(forget, SAME_FOR).unref() : forget()), forget);
    }
    return (await registering).clone();
  };
}

/** What a server asks for in `WWW-Authenticate` when it rejects a request. */
export interface Challenge {
  readonly resourceMetadataUrl?: URL | undefined;
  /** The scopes to request, separated by spaces. */
  readonly scope?: string | undefined;
}

/** Scope names according to RFC 6749, without characters that would end the header value. */
const NAME = /^[\x21\x23-\x5b\x5d-\x7e]+$/;
const SCOPE = /scope=(?:"([^"]*)"|([^\s,]+))/;

/** Whether the server requires another token: a valid one, or one with more scopes. */
export function isChallenge({ status, headers }: Response): boolean {
  if (status !== 403) return status === 401;
  return /insufficient_scope/.test(headers.get('www-authenticate') ?? '');
}

/**
 * Reads a challenge. If the server requires more scopes, adds those that the token already has: a server names only the
 * scopes of one call, and a token with only those would lose the others.
 */
export async function challengeIn(
  response: Response,
  granted: string | undefined,
  major: Major,
): Promise<Challenge> {
  const { extractWWWAuthenticateParams } = await loadAuth(major);
  const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response);
  const challenge = resourceMetadataUrl ? { resourceMetadataUrl } : {};
  if (response.status === 401) return scope === undefined ? challenge : { ...challenge, scope };
  const [, quoted, plain = ''] = SCOPE.exec(response.headers.get('www-authenticate') ?? '') ?? [];
  const required = namesIn(quoted ?? plain);
  if (required.length === 0) return challenge;
  return { ...challenge, scope: [...new Set([...namesIn(granted ?? ''), ...required])].join(' ') };
}

function namesIn(scope: string): readonly string[] {
  return scope.split(' ').filter((name) => NAME.test(name));
}
