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
