import type { FetchLike } from '../../edge/fetch.ts';
import { INTRODUCTIONS } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import { causesOf, isSignInRequired, signInRequiredError, statusOf } from '../connection/errors.ts';
import { emptyResponse, type HttpExchange, type HttpMiddleware } from '../connection/http.ts';
import { OtherTargetError } from '../connection/state-store.ts';
import type { ClientPart } from '../connection.ts';
import type { ClientEventSource } from '../events.ts';
import type { Account, TokenOwner } from '../identity/account.ts';
import type { Major } from '../major.ts';
import {
  CredentialCache,
  type CredentialKeeper,
  type Credentials,
  isSameIssuer,
  issuerOf,
  redirectOf,
  type Tokens,
} from './credentials.ts';
import { EndpointGuard } from './endpoints.ts';
import type { AuthOptions } from './options.ts';
import { type Challenge, challengeIn, isChallenge, loadAuth, Provider, registerOnce } from './provider.ts';
import { inVainError, isRefusal, leftError, SignIn, signInOnce, strangerError } from './sign-in.ts';
import { isDue, refreshNow, tokenFetch, unavailableError } from './token-requests.ts';

/** A client that only opens the connection when it connects. The requests of another party introduce it. */
export interface OpensOnly {
  readonly opensOnly: true;
}

/**
 * How long a refusal is final, in milliseconds. A host tries several ways to connect, and the user should not be asked each time.
 */
const REFUSED_FOR = 60_000;

/** The text of a 401 that has none. The SDKs repeat it in their error. */
const REJECTED = 'the server rejected a new access token (HTTP 401)';

/** The dependencies of {@link Authorization}. */
export interface AuthorizationParts {
  readonly options: AuthOptions;
  readonly keeper: CredentialKeeper;
  /** Rejects if there is no place to store tokens. */
  place(): Promise<unknown>;
  readonly major: Major;
  /** Whether the client introduces itself while it connects. Otherwise its first request does, and waits like any other. */
  readonly introducesItself: boolean;
  readonly url: URL;
  readonly fetch: FetchLike;
  readonly events: ClientEventSource;
  /** The target's name in events. */
  readonly target: string;
  readonly account: Account;
  /** Identifies the owner of tokens that came without an account name. */
  readonly owner: TokenOwner;
  /** Called when the user has signed in while the connection is open. */
  signedIn(): Promise<void>;
  /** The authorizations of the same Valise that wait for their user. This one is among them while it waits. */
  readonly waiting: Set<Authorization>;
}

/** Authorizes one connection: with stored tokens, with refreshed ones, or by asking the user to sign in. */
export class Authorization implements ClientPart {
  readonly provider: Provider;
  /** The credentials that this process has cached. */
  readonly credentials: CredentialCache;
  /** Sends OAuth requests: discovery, registration, tokens. */
  readonly fetch: FetchLike;
  /** Exchanges the code of a sign-in for tokens. Hosts that send their own token requests replace it. */
  exchange = (answer: URLSearchParams): Promise<void> => this.#exchange(answer);
  readonly #parts: AuthorizationParts;
  readonly #signIn: SignIn;
  readonly #endpoints: EndpointGuard;
  #finishing: Promise<void> | undefined;
  /** The error of the last failed sign-in. */
  #failure: unknown;
  /** Until when not to try again, because the user or the authorization server has refused. */
  #refusedUntil = 0;
  /** The token of a new sign-in, until the server has accepted it once. */
  #untried: string | undefined;
  /** The HTTP status with which the server rejected that token. */
  #inVain: number | undefined;
  #refreshing: Promise<void> | undefined;
  /** The account of tokens that a host put in the store without naming their owner. */
  #nameless: string | undefined;
  /** What the server asked for when it last rejected a request. */
  #challenge: Challenge = {};
  /** Whether the client has connected. Before that, it may close a transport to try another one. */
  #isConnected = false;
  readonly #end = new AbortController();

  constructor(parts: AuthorizationParts) {
    this.#parts = parts;
    this.credentials = new CredentialCache(parts.keeper);
    this.#endpoints = new EndpointGuard(parts.url);
    this.#signIn = new SignIn(parts.options, this.#endpoints);
    this.fetch = tokenFetch(registerOnce(this.#endpoints.fetch(parts.fetch)), this.credentials, {
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

  /** Identifies the owner of the stored tokens, before anything that belongs to one user is sent. */
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

  /**
   * Sends the access token with each request. If the server rejects it, retries with a refreshed token, or rejects with
   * `sign-in-required` while the user is asked to sign in.
   */
  readonly http: HttpMiddleware = async (exchange, next) => {
    for (let hasRefreshed = false; ; hasRefreshed = true) {
      const token = (await this.provider.tokens())?.access_token;
      const response = await this.#send(exchange, token, next);
      if (!isChallenge(response)) {
        this.#untried = undefined;
        return response;
      }
      const tokens = await this.#rejected(response, token);
      if (hasRefreshed && response.status === 401) {
        // 405 means that the server has no such stream, and both SDKs continue without it.
        const isStream = exchange.init.method === 'GET';
        const text = await response.text();
        return isStream ? emptyResponse(405) : new Response(text || REJECTED, { status: 401 });
      }
      await response.body?.cancel();
      // Another call or another process may have obtained better tokens meanwhile.
      if (!tokens || !this.credentials.isGood(tokens)) await this.#authorize(response.status === 403, tokens);
    }
  };

  async #send(
    exchange: HttpExchange,
    token: string | undefined,
    next: () => Promise<Response>,
  ): Promise<Response> {
    const { url, init, headers } = exchange;
    if (token === undefined) return next();
    headers.set('authorization', `Bearer ${token}`);
    if (!this.provider.dpop) return next();
    const { withDpopFromProvider } = await loadAuth(this.#parts.major);
    const signed = withDpopFromProvider(this.provider)((_, { headers: added } = {}) => {
      for (const [name, value] of new Headers(added)) headers.set(name, value);
      return next();
    });
    return signed(url, { ...init, headers });
  }

  /** Records that the server rejected a request. Returns the tokens that are stored now. */
  async #rejected(response: Response, token: string | undefined): Promise<Tokens | undefined> {
    this.#endpoints.reset();
    this.credentials.refuse(token);
    this.#inVain = token !== undefined && token === this.#untried ? response.status : undefined;
    this.#untried = undefined;
    const { tokens } = await this.credentials.current();
    this.#challenge = await challengeIn(response, tokens?.scope, this.#parts.major);
    return tokens;
  }

  /** Obtains tokens that the server may accept. Rejects with `sign-in-required` if only the user can. */
  async #authorize(isStepUp: boolean, tokens: Tokens | undefined): Promise<void> {
    if (isStepUp) {
      // A refresh cannot grant more than the original scope.
      this.credentials.markDead(tokens?.refresh_token);
      this.provider.want(this.#challenge.scope?.split(' ') ?? []);
    }
    await this.prepare((await this.credentials.current()).client);
    if ((await this.#auth({ ...this.#challenge, forceReauthorization: isStepUp })) === 'AUTHORIZED') return;
    const { tokens: now } = await this.credentials.current();
    if (!now || !this.credentials.isGood(now)) throw signInRequiredError(this.#parts.url, true);
  }

  /** Runs the SDK's own flow: discovery, registration, and then a refresh, the sign-in page or the exchange of a code. */
  async #auth(
    options: Challenge & { authorizationCode?: string; iss?: string; forceReauthorization?: boolean },
  ) {
    const { auth } = await loadAuth(this.#parts.major);
    return auth(this.provider, { serverUrl: this.#parts.url, fetchFn: this.fetch, ...options });
  }

  async #exchange(answer: URLSearchParams): Promise<void> {
    const iss = answer.get('iss');
    await this.#auth({ authorizationCode: answer.get('code') ?? '', ...(iss !== null && { iss }) });
  }

  connected(): void {
    this.#isConnected = true;
  }

  closed(): void {
    if (this.#isConnected) void this.end();
  }

  /** Cancels a sign-in that is no longer needed. Resolves when it has ended completely. */
  async end(): Promise<void> {
    this.#end.abort(leftError());
    await this.#finishing?.catch(() => {});
    this.#signIn.close();
  }

  /** Prepares for a sign-in, before a client is registered or a user is asked for tokens that could not be stored. */
  async prepare(client: Credentials['client']): Promise<void> {
    await this.#parts.place();
    await this.#signIn.prepare(redirectOf(client));
  }

  async undelivered({ method }: Call, error: unknown): Promise<boolean> {
    // A connecting client waits for the user outside of the SDK's call, because the SDK's timeout is too short for a user.
    const waitsOutside = this.#parts.introducesItself && INTRODUCTIONS.has(method);
    return !waitsOutside && this.recover(error);
  }

  /** Waits for a sign-in in progress, and starts one if tokens do not help. Resolves to true if a retry is worthwhile. */
  async recover(error: unknown): Promise<boolean> {
    const causes = causesOf(error);
    const isRejected = causes.some((one) => statusOf(one) === 401);
    if (!this.#finishing && isRejected) await this.#sendToPage(this.#challenge);
    if (this.#finishing) {
      await this.#finishing;
      return true;
    }
    const unavailable = causes.map(unavailableError).find((one) => one !== undefined);
    if (!isRejected && !causes.some(isSignInRequired) && !unavailable) return false;
    const { tokens } = await this.credentials.current();
    // Another flow or another process may have obtained them meanwhile.
    if (tokens && this.credentials.isGood(tokens)) return true;
    if (this.#endpoints.refusal) throw this.#endpoints.refusal;
    if (unavailable) throw unavailable;
    if (this.#failure !== undefined) throw this.#failure;
    return false;
  }

  /** Starts a sign-in, because the server rejected new tokens too. */
  async #sendToPage(challenge: Challenge): Promise<void> {
    const { client, tokens } = await this.credentials.reload();
    if (tokens && this.credentials.isGood(tokens)) return;
    await this.prepare(client);
    this.credentials.markDead(tokens?.refresh_token);
    await this.credentials.dropTokens();
    await this.#auth(challenge);
  }

  /** Signs the user in for a host that makes its own connections. Resolves when the code has been exchanged. */
  async signIn(challenge: Challenge): Promise<void> {
    if (!this.#finishing) await this.#sendToPage(challenge);
    await this.#finishing;
  }

  /** Records that the authorization server has rejected this refresh token. */
  discard(refreshToken: string): void {
    this.credentials.markDead(refreshToken);
  }

  /** Refreshes tokens that the server has rejected, if that is possible. */
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
    // Waiting callers receive the error. If there are none, the next call asks again.
    this.#finishing.catch(() => {});
  }

  async #finish(page: URL): Promise<void> {
    try {
      const answer = await this.#signIn.ask(page, this.#end.signal);
      const issuer = issuerOf(await this.provider.discoveryState());
      const named = answer.get('iss');
      if (named !== null && issuer !== undefined && !isSameIssuer(named, issuer)) throw strangerError();
      await this.exchange(answer);
      const { tokens, ...credentials } = await this.credentials.current();
      this.#untried = tokens?.access_token;
      if (!tokens) return;
      this.tell('signed-in', tokens);
      await this.#use({ ...credentials, tokens });
      await this.#parts.signedIn();
    } catch (error) {
      const { code } = error as { readonly code?: unknown };
      // The page may have shown an error that only the user saw, because the registration may be unknown by now.
      if (code === 'timeout') await this.provider.invalidateCredentials('client').catch(() => {});
      throw error;
    }
  }

  /** Refreshes tokens before they expire, with the SDK's own function. If that fails, the server's 401 decides what to do. */
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
          fetch: this.fetch,
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

/** Authorizes a connection with the tokens in a host's own store. The host renews them, and Valise never signs in (C-06). */
export class HostTokens {
  readonly #keeper: CredentialKeeper;
  readonly #account: Account;
  readonly #owner: TokenOwner;

  constructor(keeper: CredentialKeeper, account: Account, owner: TokenOwner) {
    this.#keeper = keeper;
    this.#account = account;
    this.#owner = owner;
  }

  /** Identifies the owner of the stored token, before anything that belongs to one user is sent. */
  async identify(): Promise<void> {
    await this.#token();
  }

  /** Sends the stored token with each request. After a 401, clears the token and reads the store once more. */
  readonly http: HttpMiddleware = async ({ headers }, next) => {
    const token = await this.#token();
    if (token === undefined) return next();
    headers.set('authorization', `Bearer ${token}`);
    const response = await next();
    if (response.status !== 401) return response;
    await this.#clear(token);
    const newer = await this.#token();
    if (newer === undefined || newer === token) return response;
    await response.body?.cancel();
    headers.set('authorization', `Bearer ${newer}`);
    return next();
  };

  async #token(): Promise<string | undefined> {
    let tokens = await this.#load();
    if (tokens && isOver(tokens)) {
      await this.#clear(tokens.access_token);
      tokens = await this.#load();
    }
    if (!tokens) return undefined;
    await this.#owner.uses(tokens.access_token, this.#account);
    return tokens.access_token;
  }

  async #load(): Promise<Tokens | undefined> {
    try {
      return (await this.#keeper.load()).tokens;
    } catch (error) {
      // The store's token is for another server, and this one must not receive it.
      if (error instanceof OtherTargetError) return undefined;
      throw error;
    }
  }

  /** Clears a useless token, unless the host has replaced it. */
  async #clear(token: string): Promise<void> {
    await this.#keeper.change(({ tokens, ...rest }) => (tokens?.access_token === token ? rest : undefined));
  }
}

function isOver({ expiresAt }: Tokens): boolean {
  return expiresAt !== undefined && expiresAt <= Date.now();
}
