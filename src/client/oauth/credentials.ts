import { isObject, type JsonObject } from '../../core/json.ts';
import { type Collection, collection, type Members, type Schema } from '../../store/kit/collection.ts';
import { ownProcess } from '../../store/kit/process.ts';
import type { Store } from '../../store/types.ts';
import type { SignedIn } from '../identity/account.ts';
import { type ConnectionId, keyOf } from '../identity/target.ts';

/** Tokens in the SDKs' form, with their expiry. */
export interface Tokens {
  readonly access_token: string;
  readonly token_type: string;
  readonly refresh_token?: string | undefined;
  readonly scope?: string | undefined;
  readonly id_token?: string | undefined;
  /** The lifetime in seconds, from when the tokens were issued. */
  readonly expires_in?: number | undefined;
  /** When they expire, in milliseconds since 1970. After a restart, `expires_in` alone is meaningless. */
  readonly expiresAt?: number | undefined;
  /** The authorization server that issued them. */
  readonly issuer?: string | undefined;
}

/** A registration in the SDKs' form. */
export type Registration = JsonObject & { readonly client_id: string; readonly issuer?: string };

/** An existing registration. Its secret belongs to the host and is not stored. */
export interface ExistingClient {
  readonly id: string;
  readonly hasSecret: boolean;
}

/** Everything that a client needs to be authorized again. All of it belongs to one authorization server. */
export interface Credentials extends SignedIn {
  readonly issuer?: string | undefined;
  readonly tokens?: Tokens | undefined;
  readonly client?: Registration | undefined;
  /** The existing registration that the tokens were issued to, if any. */
  readonly given?: ExistingClient | undefined;
  /** The SDKs' `OAuthDiscoveryState`. */
  readonly discovery?: JsonObject | undefined;
  /** The PKCE verifier of a sign-in in progress. */
  readonly verifier?: string | undefined;
  /** The private key that tokens are bound to (RFC 9449), as a JWK. */
  readonly dpop?: JsonObject | undefined;
}

/** The schema of stored credentials. {@link readCredentials} checks the contents of a record. */
export const CREDENTIALS: Schema<Members> = {
  kind: 'credentials record',
  version: 1,
  read: (record) => record,
};

const REFRESHER = '/refresher';
/** How long the record of a process outlives it, in seconds. A refresh takes no longer. */
const REFRESHER_SECONDS = 60;

/** Stores the credentials of one target and principal, as one entry. */
export class CredentialKeeper {
  readonly store: Store;
  readonly key: string;
  readonly #records: Collection<Members>;
  readonly #id: ConnectionId;

  constructor(store: Store, id: ConnectionId) {
    this.store = store;
    this.#records = collection(store, '', CREDENTIALS);
    this.key = keyOf('credentials', id);
    this.#id = id;
  }

  async load(): Promise<Credentials> {
    return readCredentials((await this.#records.get(this.key))?.value);
  }

  /**
   * Runs a refresh and records which process runs it, for people who wonder why tokens are not refreshed. The record
   * decides nothing, so a store that cannot write it is no reason to fail.
   */
  async refreshing<Value>(work: () => Promise<Value>): Promise<Value> {
    const key = this.key + REFRESHER;
    const mark = { ...ownProcess(), ...this.#id };
    await this.#records.put(key, mark, { ttl: REFRESHER_SECONDS }).catch(() => undefined);
    return work().finally(() => this.#records.delete(key).catch(() => false));
  }

  /** Updates the stored credentials atomically. `edit` returns undefined to leave them unchanged. */
  async change(edit: (now: Credentials) => Credentials | undefined): Promise<Credentials> {
    let now: Credentials = {};
    await this.#records.update(this.key, (found) => {
      const before = readCredentials(found?.value);
      const edited = edit(before);
      now = edited ?? before;
      return edited && { ...this.#id, ...edited };
    });
    return now;
  }

  /** Deletes the stored credentials atomically. Returns them, if there were any. */
  async forget(): Promise<Credentials | undefined> {
    let gone: Credentials | undefined;
    await this.#records.update(this.key, (found) => {
      gone = found && readCredentials(found.value);
      return found && null;
    });
    return gone;
  }
}

/** Reads credentials from a store. Omits invalid members, which costs one sign-in. */
export function readCredentials(value: unknown): Credentials {
  if (!isObject(value)) return {};
  const { issuer, account, subject, tokens, client, given, discovery, verifier, dpop } = value;
  return {
    ...(typeof issuer === 'string' && { issuer }),
    ...(typeof account === 'string' && { account }),
    ...(typeof subject === 'string' && { subject }),
    ...(isTokens(tokens) && { tokens: isDate(tokens.expiresAt) ? tokens : endless(tokens) }),
    ...(isObject(client) && typeof client['client_id'] === 'string' && { client: client as Registration }),
    ...(isObject(given) &&
      typeof given['id'] === 'string' && {
        given: { id: given['id'], hasSecret: given['hasSecret'] === true },
      }),
    ...(isObject(discovery) && { discovery: discovery as JsonObject }),
    ...(typeof verifier === 'string' && { verifier }),
    ...(isObject(dpop) && { dpop: dpop as JsonObject }),
  };
}

function isTokens(value: unknown): value is Tokens {
  return (
    isObject(value) && typeof value['access_token'] === 'string' && typeof value['token_type'] === 'string'
  );
}

/** The latest time of a JavaScript `Date`. */
const LAST_TIME = 8.64e15;

function isDate(time: unknown): boolean {
  return time === undefined || (typeof time === 'number' && Math.abs(time) <= LAST_TIME);
}

/** Removes an invalid expiry. The server then says when the tokens have expired. */
function endless({ expires_in: _, expiresAt: __, ...rest }: Tokens): Tokens {
  return rest;
}

/** The longest plausible lifetime: a hundred years. */
const MAX_LIFE_SECONDS = 100 * 366 * 24 * 60 * 60;

/** Returns the tokens with the time at which they expire. */
export function stamped(tokens: Tokens, before?: Tokens | undefined, now = Date.now()): Tokens {
  const { expires_in: seconds } = tokens;
  const isLife = typeof seconds === 'number' && seconds > 0 && seconds <= MAX_LIFE_SECONDS;
  return {
    // A refresh without a new refresh token leaves the old one valid, and the scope unchanged.
    ...(before?.refresh_token !== undefined && { refresh_token: before.refresh_token }),
    ...(before?.scope !== undefined && { scope: before.scope }),
    ...(before?.issuer !== undefined && { issuer: before.issuer }),
    ...endless(tokens),
    ...(isLife && { expires_in: seconds, expiresAt: now + seconds * 1000 }),
  };
}

const MARGIN_SECONDS = 60;

/** Whether tokens have expired, or are so close to it that a request could arrive too late. */
export function isEnding({ expiresAt, expires_in: life = 0 }: Tokens, now = Date.now()): boolean {
  if (expiresAt === undefined) return false;
  return now > expiresAt - Math.min(MARGIN_SECONDS, life / 5) * 1000;
}

/** Returns the authorization server that discovery has found, from its metadata. */
export function issuerOf(discovery: object | undefined): string | undefined {
  const { authorizationServerMetadata: metadata } = (discovery ?? {}) as {
    readonly authorizationServerMetadata?: { readonly issuer?: unknown };
  };
  return typeof metadata?.issuer === 'string' ? metadata.issuer : undefined;
}

/** Whether two names mean the same authorization server. The SDKs write them with or without a trailing slash. */
export function isSameIssuer(one: string | undefined, other: string | undefined): boolean {
  return one?.replace(/\/$/, '') === other?.replace(/\/$/, '');
}

/** Returns the address that the user of a registration is sent back to. */
export function redirectOf(client: Registration | undefined): string | undefined {
  const [first] = Array.isArray(client?.['redirect_uris']) ? client['redirect_uris'] : [];
  return typeof first === 'string' && URL.canParse(first) ? first : undefined;
}

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
  issued(accessToken: string): void {
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
