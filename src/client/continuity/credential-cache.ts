import { type CredentialKeeper, type Credentials, isEnding, type Tokens } from './credentials.ts';

const MAX_REFUSED = 16;

/** The credentials that this process has cached, and what it knows about them that the store does not. */
export class CredentialCache {
  readonly keeper: CredentialKeeper;
  /** Access tokens that the server has rejected. */
  readonly #refused = new Set<string>();
  #inHand: Credentials | undefined;
  /** A refresh token that the authorization server does not accept, or that cannot help. */
  #dead: string | undefined;

  constructor(keeper: CredentialKeeper) {
    this.keeper = keeper;
  }

  /** Returns the cached credentials. Reads the store once, and again if it may have better ones. */
  async current(): Promise<Credentials> {
    const { tokens } = this.#inHand ?? {};
    return this.#inHand && (!tokens || this.isGood(tokens)) ? this.#inHand : this.reload();
  }

  async reload(): Promise<Credentials> {
    this.#inHand = await this.keeper.load();
    return this.#inHand;
  }

  async change(edit: (now: Credentials) => Credentials | undefined): Promise<Credentials> {
    this.#inHand = await this.keeper.change(edit);
    return this.#inHand;
  }

  /** Whether the access token is neither rejected nor about to expire. */
  isGood(tokens: Tokens): boolean {
    return !this.isRefused(tokens.access_token) && !isEnding(tokens);
  }

  isRefused(accessToken: string): boolean {
    return this.#refused.has(accessToken);
  }

  /** Records that the authorization server has issued this access token, possibly again. */
  given(accessToken: string): void {
    this.#refused.delete(accessToken);
  }

  /** Records that the server rejected this access token, or requires one. */
  refuse(accessToken: string | undefined): void {
    this.#inHand = undefined;
    if (accessToken === undefined) return;
    this.#refused.add(accessToken);
    if (this.#refused.size <= MAX_REFUSED) return;
    for (const oldest of this.#refused) {
      this.#refused.delete(oldest);
      return;
    }
  }

  isDead({ refresh_token }: Tokens): boolean {
    return refresh_token !== undefined && refresh_token === this.#dead;
  }

  /** Records that this refresh token must not be used. */
  markDead(refreshToken: string | undefined): void {
    this.#dead = refreshToken;
  }

  /** Removes the tokens from the store, but only those known to be useless. Another process may have new ones. */
  async dropTokens(): Promise<void> {
    await this.change((now) => {
      const { tokens, ...rest } = now;
      return tokens && (this.isDead(tokens) || this.isRefused(tokens.access_token)) ? rest : undefined;
    });
  }
}
