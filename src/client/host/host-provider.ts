import { setTimeout as wait } from 'node:timers/promises';
import { ValiseError } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json.ts';
import { withLease } from '../../store/kit/lease.ts';
import type { Major } from '../major.ts';
import type { Authorization } from '../oauth/authorization.ts';
import { type Credentials, type Registration, stamped, type Tokens } from '../oauth/credentials.ts';
import type { DpopSigner } from '../oauth/provider.ts';
import { loadAuth } from '../oauth/provider.ts';

interface Issued {
  readonly issuer: string;
}

interface Discovery {
  readonly authorizationServerUrl?: string;
  readonly authorizationServerMetadata?: JsonObject | undefined;
  readonly resourceMetadata?: JsonObject | undefined;
  readonly resourceMetadataUrl?: string | undefined;
}

/** How long the host may take to send a token request that it has asked for, in milliseconds. */
const PATIENCE = 30_000;

/** A token request that the host is about to send. */
interface TokenRequest {
  /** The refresh token in it, or undefined if it has a code. */
  readonly refreshes: string | undefined;
  /** Called when the host has stored the tokens or given up. */
  over(): void;
}

/**
 * An `OAuthClientProvider` of both SDK majors for hosts that make their own connections.
 *
 * It never exposes a refresh token: {@link tokens} refreshes under a lease before a token expires. After a 401, the SDKs
 * ask a provider without a redirect URL for a token request ({@link prepareTokenRequest}). The answer is a refresh, or the
 * code of a sign-in, so that the host's call continues by itself. Clients that do not support this (the AI SDK, SDK v1
 * before 1.27) never call {@link discoveryState}. They get the redirect URL, and connect again after the sign-in.
 */
export class HostProvider {
  readonly #authorization: Authorization;
  /** Exchanges a code without the host. */
  readonly #exchangeByValise: Authorization['exchange'];
  readonly #major: Major;
  /** Whether the caller asks for token requests. */
  #isAsked = false;
  #discovery: Discovery = {};
  /** The access token that was handed out last. */
  #handed: string | undefined;
  #request: TokenRequest | undefined;
  #giveCode: ((params: URLSearchParams) => void) | undefined;

  /** Absent if there is an existing registration. */
  readonly saveClientInformation?: (client: Registration, at?: Issued) => Promise<void>;
  readonly clientMetadataUrl?: string;
  /** Signs requests if tokens are bound to a key. SDK v2 calls it. */
  readonly dpop?: () => Promise<DpopSigner>;

  constructor(authorization: Authorization, major: Major) {
    this.#authorization = authorization;
    this.#major = major;
    this.#exchangeByValise = authorization.exchange;
    authorization.exchange = (answer) => this.#exchange(answer);
    const { saveClientInformation, clientMetadataUrl, dpop } = authorization.provider;
    if (saveClientInformation) this.saveClientInformation = saveClientInformation;
    if (clientMetadataUrl !== undefined) this.clientMetadataUrl = clientMetadataUrl;
    if (dpop) this.dpop = dpop;
  }

  get redirectUrl(): string | undefined {
    return this.#isAsked ? undefined : this.#authorization.provider.redirectUrl;
  }

  get clientMetadata() {
    return this.#authorization.provider.clientMetadata;
  }

  state(): string {
    return this.#authorization.provider.state();
  }

  async tokens(at?: Issued): Promise<Tokens | undefined> {
    const tokens = await this.#authorization.provider.tokens(at);
    this.#handed = tokens?.access_token;
    if (!tokens) return undefined;
    const { refresh_token: _, ...rest } = tokens;
    return rest;
  }

  /** Called only after the server has rejected a request. */
  async clientInformation(at?: Issued): Promise<Registration | undefined> {
    const { credentials, provider } = this.#authorization;
    credentials.refuse(this.#handed);
    const { tokens, client } = await credentials.reload();
    if (!tokens?.refresh_token || credentials.isDead(tokens)) await this.#authorization.prepare(client);
    else if (!this.#isAsked) await this.#authorization.renew();
    return (await provider.clientInformation(at)) ?? (this.#isAsked ? this.#register(at) : undefined);
  }

  /**
   * Registers the client. The caller would register an address without the port that {@link Authorization.prepare} has chosen.
   */
  async #register(at: Issued | undefined): Promise<Registration | undefined> {
    const { authorizationServerUrl: server, authorizationServerMetadata: metadata } = this.#discovery;
    const { provider } = this.#authorization;
    const isUrl = provider.clientMetadataUrl && metadata?.['client_id_metadata_document_supported'] === true;
    if (isUrl || server === undefined || !provider.saveClientInformation) return undefined;
    const { registerClient } = await loadAuth(this.#major);
    const scopes = this.#discovery.resourceMetadata?.['scopes_supported'];
    const client = await registerClient(server, {
      metadata,
      clientMetadata: provider.clientMetadata,
      ...(Array.isArray(scopes) && { scope: scopes.join(' ') }),
      fetchFn: this.#authorization.fetch,
    });
    const issued = { ...client, issuer: at?.issuer ?? server };
    await provider.saveClientInformation(issued, at);
    return issued;
  }

  /** Returns the parameters that the SDKs send to the token endpoint before they repeat the rejected request. */
  async prepareTokenRequest(scope?: string): Promise<URLSearchParams> {
    const { credentials } = this.#authorization;
    const { tokens } = await credentials.reload();
    return (
      (covers(tokens, scope) ? await this.#refresh() : undefined) ??
      (await this.#signIn(scope)) ??
      (await this.#refresh()) ??
      this.#elsewhere()
    );
  }

  /** Returns a refresh for the host to send. The lease lasts until the result is stored. */
  #refresh(): Promise<URLSearchParams | undefined> {
    const { credentials } = this.#authorization;
    const { store, key } = credentials.keeper;
    return new Promise((resolve, reject) => {
      const alone = async (): Promise<void> => {
        const { tokens } = await credentials.reload();
        const { refresh_token: token } = tokens ?? {};
        if (!tokens || token === undefined || credentials.isDead(tokens)) return resolve(undefined);
        const over = this.#sent(token);
        resolve(new URLSearchParams({ grant_type: 'refresh_token', refresh_token: token }));
        await over;
      };
      withLease(store, `${key}/refresh`, alone).catch(reject);
    });
  }

  /** Returns the code of the sign-in for the host to exchange. Returns undefined if another process has signed in. */
  async #signIn(scope: string | undefined): Promise<URLSearchParams | undefined> {
    const { resourceMetadataUrl: at } = this.#discovery;
    const code = new Promise<URLSearchParams>((resolve) => {
      this.#giveCode = resolve;
    });
    const signedIn = this.#authorization.signIn({
      ...(at !== undefined && { resourceMetadataUrl: new URL(at) }),
      ...(scope !== undefined && { scope }),
    });
    return Promise.race([code, signedIn.then(() => undefined)]);
  }

  /** Exchanges the code after the user's return. The host sends it if it can, or else Valise does. */
  async #exchange(answer: URLSearchParams): Promise<void> {
    const { provider } = this.#authorization;
    if (!this.#giveCode) return this.#exchangeByValise(answer);
    const params = new URLSearchParams({
      grant_type: 'authorization_code',
      code: answer.get('code') ?? '',
      code_verifier: await provider.codeVerifier(),
      redirect_uri: provider.redirectUrl,
    });
    const over = this.#sent(undefined);
    this.#giveCode(params);
    this.#giveCode = undefined;
    return over;
  }

  /** Resolves when the host has stored the result of its token request, or has given up. */
  #sent(refreshes: string | undefined): Promise<void> {
    this.#request?.over();
    const stop = new AbortController();
    this.#request = { refreshes, over: () => stop.abort() };
    return wait(PATIENCE, undefined, { signal: stop.signal, ref: false }).catch(() => {});
  }

  #elsewhere(): never {
    throw new ValiseError('already-done', 'Another process has signed in in the meantime.', {
      next: 'Connect again.',
    });
  }

  async saveTokens(tokens: Tokens, at?: Issued): Promise<void> {
    const { credentials, provider } = this.#authorization;
    const request = this.#request;
    this.#request = undefined;
    if (request?.refreshes === undefined) await provider.saveTokens(tokens, at);
    else {
      const keep = (now: Credentials): Credentials | undefined =>
        now.tokens?.refresh_token === request.refreshes
          ? { ...now, tokens: stamped(tokens, now.tokens) }
          : undefined;
      const { tokens: kept } = await credentials.change(keep);
      credentials.issued(tokens.access_token);
      if (kept) this.#authorization.tell('refreshed', kept);
    }
    request?.over();
  }

  async redirectToAuthorization(page: URL): Promise<void> {
    const { provider, credentials } = this.#authorization;
    await provider.redirectToAuthorization(page);
    const { tokens } = await credentials.current();
    if (!tokens || !credentials.isGood(tokens)) await this.#authorization.signIn({});
  }

  saveCodeVerifier(verifier: string): Promise<void> {
    return this.#authorization.provider.saveCodeVerifier(verifier);
  }

  codeVerifier(): Promise<string> {
    return this.#authorization.provider.codeVerifier();
  }

  async saveDiscoveryState(discovery: object): Promise<void> {
    this.#discovery = discovery as Discovery;
    await this.#authorization.provider.saveDiscoveryState(discovery);
  }

  async discoveryState(): Promise<never | undefined> {
    this.#isAsked = true;
    const known = await this.#authorization.provider.discoveryState();
    if (known) this.#discovery = known as Discovery;
    return known as never;
  }

  async invalidateCredentials(what: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): Promise<void> {
    const request = this.#request;
    this.#request = undefined;
    if (request?.refreshes !== undefined) this.#authorization.discard(request.refreshes);
    await this.#authorization.provider.invalidateCredentials(what);
    request?.over();
  }
}

/** Whether a refresh can grant the requested scope. */
function covers(tokens: Tokens | undefined, scope: string | undefined): boolean {
  if (tokens?.scope === undefined || scope === undefined) return true;
  const granted = new Set(tokens.scope.split(' '));
  return scope.split(' ').every((one) => granted.has(one) || one === 'offline_access');
}
