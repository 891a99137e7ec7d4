import { type CredentialKeeper, type Credentials, isEnding, type Tokens } from './credentials.ts';

const MAX_REFUSED = 16;

/** The credentials that this process has in hand, and what it knows about them that the store does not say. */
export class CredentialCache {
  readonly keeper: CredentialKeeper;
  /** Access tokens that the server has answered with 401. */
  readonly #refused = new Set<string>();
  #inHand: Credentials | undefined;
  /** A refresh token that the authorization server does not take. */
  #dead: string | undefined;

  constructor(keeper: CredentialKeeper) {
    this.keeper = keeper;
  }

  /** What is in hand; the store is asked once, and again where it may know better. */
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

  /** True where nothing speaks against sending the access token. */
  isGood(tokens: Tokens): boolean {
    return !this.isRefused(tokens.access_token) && !isEnding(tokens);
  }

  isRefused(accessToken: string): boolean {
    return this.#refused.has(accessToken);
  }

  /** The authorization server has given this access token, and be it once more. */
  given(accessToken: string): void {
    this.#refused.delete(accessToken);
  }

  /** The server did not take this access token, or wants one. */
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

  /** The authorization server did not take this refresh token. */
  markDead(refreshToken: string | undefined): void {
    this.#dead = refreshToken;
  }

  /** Drops the tokens in the store, but only those that were found to be of no use: another process may have new ones. */
  async dropTokens(): Promise<void> {
    await this.change((now) => {
      const { tokens, ...rest } = now;
      return tokens && (this.isDead(tokens) || this.isRefused(tokens.access_token)) ? rest : undefined;
    });
  }
}
