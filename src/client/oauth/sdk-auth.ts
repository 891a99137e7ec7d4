import type { FetchLike } from '../../link/edge-fetch.ts';
import { loadSdk, type Major } from '../major.ts';
import type { Registration } from './credentials.ts';

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
