import type { FetchLike } from '../../link/edge-fetch.ts';
import { INTRODUCTIONS } from '../../wire/index.ts';
import type { Account, TokenOwner } from '../account.ts';
import type { Call } from '../call.ts';
import type { ClientEventSource } from '../events.ts';
import type { HttpTransport } from '../http.ts';
import { bearerOf } from '../http-edge.ts';
import type { Major } from '../major.ts';
import type { ClientPart } from '../part.ts';
import type { AuthOptions } from './auth-options.ts';
import { CredentialCache } from './credential-cache.ts';
import {
  type CredentialKeeper,
  type Credentials,
  isSameIssuer,
  issuerOf,
  redirectOf,
  type Tokens,
} from './credentials.ts';
import { EndpointGuard } from './endpoints.ts';
import { statusOf } from './lost.ts';
import { Provider } from './provider.ts';
import { registerOnce } from './register-once.ts';
import { loadAuth } from './sdk-auth.ts';
import { inVainError, isRefusal, leftError, SignIn, strangerError } from './sign-in.ts';
import { signInOnce } from './sign-in-once.ts';
import { isStepUp, wantedIn, withGranted } from './step-up.ts';
import { isDue, refreshNow, tokenFetch, unavailableError } from './token-fetch.ts';

/** A client that only opens the way when it connects, and leaves the introduction to somebody else's requests. */
export interface OpensOnly {
  readonly opensOnly: true;
}

/** How long, in milliseconds, no is no: a host tries several ways to begin, which is no reason to ask the user again. */
const REFUSED_FOR = 60_000;

/** What a sign-in asks for, and where the server says how. */
interface Wanted {
  readonly resourceMetadataUrl?: URL | undefined;
  readonly scope?: string | undefined;
}

/** What a connection signs in with. */
export interface AuthorizationParts {
  readonly options: AuthOptions;
  readonly keeper: CredentialKeeper;
  /** Fails where there is no place for tokens. */
  place(): Promise<unknown>;
  readonly major: Major;
  /** True where the client introduces itself while it connects; else its first request does, and waits as any other. */
  readonly introducesItself: boolean;
  readonly url: URL;
  readonly fetch: FetchLike;
  readonly events: ClientEventSource;
  /** The target's name in events. */
  readonly target: string;
  readonly account: Account;
  /** Knows whose tokens are that came without the name of an account. */
  readonly owner: TokenOwner;
  /** The user has signed in while the connection is open. */
  signedIn(): Promise<void>;
  /** Those of the same Valise that wait for their user; this one is among them while it does. */
  readonly waiting: Set<Authorization>;
}

/** How one connection is let in: by the tokens that are kept, by new ones, or by the user. */
export class Authorization implements ClientPart {
  readonly provider: Provider;
  /** What exchanges the code: the SDK's transport, or what stands for it. */
  transport: Pick<HttpTransport, 'finishAuth'> | undefined;
  /** The credentials that this process has in hand. */
  readonly credentials: CredentialCache;
  readonly #parts: AuthorizationParts;
  readonly #signIn: SignIn;
  readonly #endpoints: EndpointGuard;
  readonly #others: FetchLike;
  #finishing: Promise<void> | undefined;
  /** Why the last sign-in came to nothing. */
  #failure: unknown;
  /** Until when it need not be tried again, since the user or the authorization server has said no. */
  #refusedUntil = 0;
  /** The token of a sign-in, until the server has taken it once. */
  #untried: string | undefined;
  /** What the server has answered to it. */
  #inVain: number | undefined;
  #refreshing: Promise<void> | undefined;
  /** The account of tokens that a host has put in the store, which does not say whose they are. */
  #nameless: string | undefined;
  #challenge: Response | undefined;
  /** The client has connected; before that it closes transports of which it tries another one. */
  #isConnected = false;
  readonly #end = new AbortController();
  /** The last request for a stream was refused; with a token that has come since, it is tried once more, and no more. */
  #streamRefused = false;

  constructor(parts: AuthorizationParts) {
    this.#parts = parts;
    this.credentials = new CredentialCache(parts.keeper);
    this.#endpoints = new EndpointGuard(parts.url);
    this.#signIn = new SignIn(parts.options, this.#endpoints);
    this.#others = tokenFetch(registerOnce(this.#endpoints.fetch(parts.fetch)), this.credentials, {
      refreshed: (tokens) => this.tell('refreshed', tokens),
      own: parts.options.client,
    });
    this.provider = new Provider({
      options: parts.options,
      credentialCache: this.credentials,
      signIn: this.#signIn,
      endpoints: this.#endpoints,
      begin: (page) => this.#begin(page),
      refresh: (credentials) => this.#refresh(credentials),
      use: (credentials) => this.#use(credentials),
      account: () => this.#nameless,
      major: parts.major,
    });
  }

  /** Finds out whose tokens are kept, before anything is sent that is one user's. */
  async identify(): Promise<void> {
    await this.#use(await this.credentials.current());
  }

  async #use({ account: name, tokens }: Credentials): Promise<void> {
    const { account, owner } = this.#parts;
    if (!tokens) return;
    if (name !== undefined) return account.signIn(name);
    await owner.uses(tokens.access_token, account);
    this.#nameless = account.signedIn;
  }

  /** Around MCP's own requests: what the server does not let in is noted before the SDK acts on it. */
  resource(base: FetchLike): FetchLike {
    return async (url, init = {}) => {
      const token = bearerOf(init.headers);
      const isStream = init.method === 'GET';
      const isLastTry =
        isStream && this.#streamRefused && token !== undefined && !this.credentials.isRefused(token);
      const response = await base(url, init);
      const isRefused = response.status === 401 || isStepUp(response);
      if (isRefused && isLastTry) {
        await response.body?.cancel();
        // As where the server has no such stream: both SDKs go on without it. With a 401, v1 would refresh for ever.
        return new Response(null, { status: 405 });
      }
      if (isStream) this.#streamRefused = isRefused;
      if (isRefused) return this.#challenged(response, token);
      this.#untried = undefined;
      return response;
    };
  }

  /** Around everything else: discovery, registration, tokens. */
  others(): FetchLike {
    return this.#others;
  }

  connected(): void {
    this.#isConnected = true;
  }

  closed(): void {
    if (this.#isConnected) void this.end();
  }

  /** Nobody needs the user any more. Resolves when nothing is left of a sign-in under way. */
  async end(): Promise<void> {
    this.#end.abort(leftError());
    await this.#finishing?.catch(() => {});
    this.#signIn.close();
  }

  async #challenged(response: Response, token: string | undefined): Promise<Response> {
    this.#endpoints.reset();
    this.credentials.refuse(token);
    this.#inVain = token !== undefined && token === this.#untried ? response.status : undefined;
    this.#untried = undefined;
    const { client, tokens } = await this.credentials.current();
    const isMore = response.status === 403;
    const challenge = isMore ? withGranted(response, tokens?.scope) : response;
    this.#challenge = challenge;
    if (isMore) {
      // Refreshing cannot give more than there was.
      this.credentials.markDead(tokens?.refresh_token);
      this.provider.want(wantedIn(challenge));
    }
    await this.prepare(client);
    return challenge;
  }

  /** Gets ready for a sign-in: before anybody is registered, or asked, for what could not be kept. */
  async prepare(client: Credentials['client']): Promise<void> {
    await this.#parts.place();
    await this.#signIn.prepare(redirectOf(client));
  }

  async undelivered({ method }: Call, error: unknown): Promise<boolean> {
    // Whoever connects waits for the user outside of the SDK's call, whose patience is shorter than a user's.
    const waitsOutside = this.#parts.introducesItself && INTRODUCTIONS.has(method);
    return !waitsOutside && this.recover(error);
  }

  /** Waits for the user where one is asked, and asks where tokens do not help; true where it is worth another try. */
  async recover(error: unknown): Promise<boolean> {
    const isRefused = statusOf(error) === 401;
    if (!this.#finishing && isRefused) await this.#signInAnew();
    if (this.#finishing) {
      await this.#finishing;
      return true;
    }
    const unavailable = unavailableError(error);
    const isUnauthorized = (error as Error | undefined)?.constructor?.name === 'UnauthorizedError';
    if (!isRefused && !isUnauthorized && !unavailable) return false;
    const { tokens } = await this.credentials.current();
    // Another flow, or another process, may have brought them in the meantime.
    if (tokens && this.credentials.isGood(tokens)) return true;
    if (this.#endpoints.refusal) throw this.#endpoints.refusal;
    if (unavailable) throw unavailable;
    if (this.#failure !== undefined) throw this.#failure;
    return false;
  }

  /** Fresh tokens were not taken either. */
  async #signInAnew(): Promise<void> {
    const { extractWWWAuthenticateParams } = await loadAuth(this.#parts.major);
    await this.#sendToPage(this.#challenge ? extractWWWAuthenticateParams(this.#challenge) : {});
  }

  async #sendToPage({ resourceMetadataUrl, scope }: Wanted): Promise<void> {
    const { major, url } = this.#parts;
    const { tokens } = await this.credentials.reload();
    if (tokens && this.credentials.isGood(tokens)) return;
    this.credentials.markDead(tokens?.refresh_token);
    await this.credentials.dropTokens();
    const { auth } = await loadAuth(major);
    await auth(this.provider, {
      serverUrl: url,
      fetchFn: this.#others,
      ...(resourceMetadataUrl && { resourceMetadataUrl }),
      ...(scope !== undefined && { scope }),
    });
  }

  /** Has the user sign in for a host that makes its own connections. Resolves when the code is exchanged. */
  async signIn(wanted: Wanted): Promise<void> {
    await this.prepare((await this.credentials.current()).client);
    if (!this.#finishing) await this.#sendToPage(wanted);
    await this.#finishing;
  }

  /** The authorization server has refused this refresh token. */
  discard(refreshToken: string): void {
    this.credentials.markDead(refreshToken);
  }

  /** Refreshes tokens that the server has refused, if that is possible. */
  async renew(): Promise<void> {
    const credentials = await this.credentials.reload();
    if (credentials.tokens && !this.credentials.isGood(credentials.tokens)) await this.#renew(credentials);
  }

  #begin(page: URL): void {
    if (this.#inVain !== undefined) throw inVainError(this.#inVain);
    if (Date.now() < this.#refusedUntil) throw this.#failure;
    this.#failure = undefined;
    const { waiting, events, target } = this.#parts;
    waiting.add(this);
    this.#finishing = signInOnce(this.credentials, () => this.#finish(page), {
      signal: this.#end.signal,
      elsewhere: () => events.emit('sign-in-elsewhere', { target }),
    })
      .catch((error: unknown) => {
        this.#failure = error;
        if (isRefusal(error)) this.#refusedUntil = Date.now() + REFUSED_FOR;
        throw error;
      })
      .finally(() => {
        waiting.delete(this);
        this.#finishing = undefined;
        this.provider.ended();
      });
    // Whoever waits for it hears of its failure; where nobody does, the next call asks again.
    this.#finishing.catch(() => {});
  }

  async #finish(page: URL): Promise<void> {
    try {
      const answer = await this.#signIn.ask(page, this.#end.signal);
      const issuer = issuerOf(await this.provider.discoveryState());
      const named = answer.get('iss');
      if (named !== null && issuer !== undefined && !isSameIssuer(named, issuer)) throw strangerError();
      await this.transport?.finishAuth(this.#parts.major === 'v2' ? answer : answer.get('code'));
      const { tokens, ...credentials } = await this.credentials.current();
      this.#untried = tokens?.access_token;
      if (!tokens) return;
      this.tell('signed-in', tokens);
      await this.#use({ ...credentials, tokens });
      await this.#parts.signedIn();
    } catch (error) {
      const { code } = error as { readonly code?: unknown };
      // The page may have been an error that only the user saw: the registration may be unknown by now.
      if (code === 'sign-in-timeout') await this.provider.invalidateCredentials('client').catch(() => {});
      throw error;
    }
  }

  /** Refreshes tokens before they end, by the SDK's own function. Where that fails, the server's 401 says what to do. */
  async #refresh({ tokens, discovery }: Credentials): Promise<Tokens | undefined> {
    return tokens && isDue(tokens, this.credentials) ? this.#renew({ tokens, discovery }) : undefined;
  }

  async #renew({ tokens, discovery }: Credentials): Promise<Tokens | undefined> {
    if (tokens?.refresh_token === undefined || this.credentials.isDead(tokens)) return undefined;
    this.#refreshing ??= this.provider
      .clientInformation()
      .then(async (client) =>
        refreshNow({
          tokens,
          discovery: discovery ?? {},
          client,
          major: this.#parts.major,
          fetch: this.#others,
          dpop: await this.provider.dpop?.(),
        }),
      )
      .catch(() => {})
      .finally(() => {
        this.#refreshing = undefined;
      });
    await this.#refreshing;
    return (await this.credentials.current()).tokens;
  }

  /** Emits an event about tokens. */
  tell(what: 'signed-in' | 'refreshed', { issuer, expiresAt }: Tokens): void {
    const { events, target } = this.#parts;
    events.emit(what, {
      target,
      ...(issuer !== undefined && { issuer }),
      ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }),
    });
  }
}
