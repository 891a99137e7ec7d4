import {
  ClientCredentialsProvider,
  CrossAppAccessProvider,
  DpopSession,
  type OAuthClientInformationMixed,
  type OAuthClientMetadata,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
  PrivateKeyJwtProvider,
  requestJwtAuthorizationGrant,
} from '@modelcontextprotocol/client';

const CALLBACK = 'http://localhost:3000/callback';

/** A user at a browser who says yes to everything. */
export class SignIn implements OAuthClientProvider {
  readonly redirectUrl = CALLBACK;
  readonly clientMetadataUrl = 'https://conformance-test.local/client-metadata.json';
  readonly clientMetadata: OAuthClientMetadata = {
    client_name: 'conformance-fixture',
    redirect_uris: [CALLBACK],
  };
  readonly dpop?: () => DpopSession;
  #client: OAuthClientInformationMixed | undefined;
  #tokens: OAuthTokens | undefined;
  #verifier = '';
  #discovered: OAuthDiscoveryState | undefined;
  #callback: URLSearchParams | undefined;

  constructor(
    given: {
      readonly client?: OAuthClientInformationMixed | undefined;
      readonly dpop?: DpopSession | undefined;
    } = {},
  ) {
    this.#client = given.client;
    const { dpop } = given;
    if (dpop) this.dpop = () => dpop;
  }

  clientInformation(): OAuthClientInformationMixed | undefined {
    return this.#client;
  }
  saveClientInformation(client: OAuthClientInformationMixed): void {
    this.#client = client;
  }
  tokens(): OAuthTokens | undefined {
    return this.#tokens;
  }
  saveTokens(tokens: OAuthTokens): void {
    this.#tokens = tokens;
  }
  codeVerifier(): string {
    return this.#verifier;
  }
  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }
  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#discovered;
  }
  saveDiscoveryState(state: OAuthDiscoveryState): void {
    this.#discovered = state;
  }
  invalidateCredentials(what: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): void {
    if (what === 'all' || what === 'client') this.#client = undefined;
    if (what === 'all' || what === 'tokens') this.#tokens = undefined;
    if (what === 'all' || what === 'discovery') this.#discovered = undefined;
  }
  async redirectToAuthorization(url: URL): Promise<void> {
    const { headers } = await fetch(url, { redirect: 'manual' });
    const location = headers.get('location');
    this.#callback = location === null ? undefined : new URL(location).searchParams;
  }
  /** What the page where the user signed in has sent back, once. */
  takeCallback(): URLSearchParams | undefined {
    const callback = this.#callback;
    this.#callback = undefined;
    return callback;
  }
}

type Context = Readonly<Record<string, string>>;

/** Scenarios whose client signs in otherwise than a user at a browser does. */
export const PROVIDERS: Readonly<
  Record<string, (context: Context) => OAuthClientProvider | Promise<OAuthClientProvider>>
> = {
  'auth/pre-registration': ({ client_id = '', client_secret = '' }) =>
    new SignIn({ client: { client_id, client_secret, redirect_uris: [CALLBACK] } }),
  'auth/dpop': async () => new SignIn({ dpop: await DpopSession.create() }),
  'auth/dpop-nonce': async () => new SignIn({ dpop: await DpopSession.create() }),
  'auth/client-credentials-basic': ({ client_id = '', client_secret = '' }) =>
    new ClientCredentialsProvider({ clientId: client_id, clientSecret: client_secret }),
  'auth/client-credentials-jwt': ({ client_id = '', private_key_pem = '', signing_algorithm = 'ES256' }) =>
    new PrivateKeyJwtProvider({
      clientId: client_id,
      privateKey: private_key_pem,
      algorithm: signing_algorithm,
    }),
  'auth/cross-app-access-complete-flow': crossApp,
  'auth/enterprise-managed-authorization': crossApp,
};

function crossApp(context: Context): OAuthClientProvider {
  return new CrossAppAccessProvider({
    clientId: context['client_id'] ?? '',
    clientSecret: context['client_secret'] ?? '',
    assertion: async ({ authorizationServerUrl, resourceUrl, fetchFn }) => {
      const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
        tokenEndpoint: context['idp_token_endpoint'] ?? '',
        audience: authorizationServerUrl,
        resource: resourceUrl,
        idToken: context['idp_id_token'] ?? '',
        clientId: context['idp_client_id'] ?? '',
        fetchFn,
      });
      return jwtAuthGrant;
    },
  });
}
