import type { Account, TokenOwner } from '../account.ts';
import type { HttpMiddleware } from '../connection/fetch.ts';
import { OtherTargetError } from '../connection/state-store.ts';
import type { CredentialKeeper, Tokens } from './credentials.ts';

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
