import type { FetchLike } from '../../link/edge-fetch.ts';
import { INTRODUCTIONS } from '../../wire/index.ts';
import type { Account, TokenOwner } from '../account.ts';
import type { Call } from '../call.ts';
import { statusOf } from '../connection/errors.ts';
import { bearerOf, type HttpTransport } from '../connection/http.ts';
import type { ClientEventSource } from '../events.ts';
import type { Major } from '../major.ts';
import type { ClientPart } from '../part.ts';
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
import { Provider } from './provider.ts';
import { isDue, refreshNow, tokenFetch, unavailableError } from './refresh.ts';
import { loadAuth, registerOnce } from './sdk-auth.ts';
import { inVainError, isRefusal, leftError, SignIn, signInOnce, strangerError } from './sign-in.ts';
import { isStepUp, wantedIn, withGranted } from './step-up.ts';

/** A client that only opens the connection when it connects. The requests of another party introduce it. */
export interface OpensOnly {
  readonly opensOnly: true;
}

/**
 * How long a refusal is final, in milliseconds. A host tries several ways to connect, and the user should not be asked each time.
 */
const REFUSED_FOR = 60_000;

/** The scope that a sign-in requests, and the URL of the server's resource metadata. */
interface Wanted {
  readonly resourceMetadataUrl?: URL | undefined;
  readonly scope?: string | undefined;
}

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
  /** Exchanges the code: the SDK's transport, or a substitute for it. */
  transport: Pick<HttpTransport, 'finishAuth'> | undefined;
  /** The credentials that this process has cached. */
  readonly credentials: CredentialCache;
  readonly #parts: AuthorizationParts;
  readonly #signIn: SignIn;
  readonly #endpoints: EndpointGuard;
  readonly #others: FetchLike;
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
  #challenge: Response | undefined;
  /** Whether the client has connected. Before that, it may close a transport to try another one. */
  #isConnected = false;
  readonly #end = new AbortController();
  /** Whether the last request for a stream was rejected. It is retried once with a newer token, and then no more. */
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

  /** Wraps the MCP requests. Records rejections before the SDK acts on them. */
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
        // 405 means that the server has no such stream, and both SDKs continue without it. With a 401, v1 would refresh
        // forever.
        return new Response(null, { status: 405 });
      }
      if (isStream) this.#streamRefused = isRefused;
      if (isRefused) return this.#challenged(response, token);
      this.#untried = undefined;
      return response;
    };
  }

  /** Wraps all other requests: discovery, registration, tokens. */
  others(): FetchLike {
    return this.#others;
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
      // A refresh cannot grant more than the original scope.
      this.credentials.markDead(tokens?.refresh_token);
      this.provider.want(wantedIn(challenge));
    }
    await this.prepare(client);
    return challenge;
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
    // Another flow or another process may have obtained them meanwhile.
    if (tokens && this.credentials.isGood(tokens)) return true;
    if (this.#endpoints.refusal) throw this.#endpoints.refusal;
    if (unavailable) throw unavailable;
    if (this.#failure !== undefined) throw this.#failure;
    return false;
  }

  /** Starts a sign-in, because the server rejected new tokens too. */
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

  /** Signs the user in for a host that makes its own connections. Resolves when the code has been exchanged. */
  async signIn(wanted: Wanted): Promise<void> {
    await this.prepare((await this.credentials.current()).client);
    if (!this.#finishing) await this.#sendToPage(wanted);
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
      await this.transport?.finishAuth(this.#parts.major === 'v2' ? answer : answer.get('code'));
      const { tokens, ...credentials } = await this.credentials.current();
      this.#untried = tokens?.access_token;
      if (!tokens) return;
      this.tell('signed-in', tokens);
      await this.#use({ ...credentials, tokens });
      await this.#parts.signedIn();
    } catch (error) {
      const { code } = error as { readonly code?: unknown };
      // The page may have shown an error that only the user saw, because the registration may be unknown by now.
      if (code === 'sign-in-timeout') await this.provider.invalidateCredentials('client').catch(() => {});
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
