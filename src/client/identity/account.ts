import { randomBytes } from 'node:crypto';
import { ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { type Collection, collection, type Members, recordsOf } from '../../store/kit/collection.ts';
import type { Store } from '../../store/types.ts';

/**
 * The account at the server that a connection acts for, as a digest, or `''` if it is unknown. State stored for one
 * account is never sent for another (S-05).
 */
export class Account {
  /** The digest. Has a part from headers that the host sets itself, and a part from tokens. */
  name: string;
  #signedIn = '';
  #began: string | undefined;

  /** `name` is the part from headers that the host sets itself. */
  constructor(name = '') {
    this.name = name;
  }

  /** The part of the name that comes from tokens. */
  get signedIn(): string {
    return this.#signedIn;
  }

  /** Whether data stored under this name may be used: it is this account's, or the connection began under it. */
  owns(name: string): boolean {
    return name === this.name || name === this.#began;
  }

  /** Starts a connection. If the user signs in while it is open, its data then belongs to that account. */
  begin(): void {
    this.#began = this.name;
  }

  /** Sets the account that the tokens of this connection belong to. Throws if they belonged to another account before. */
  signIn(name: string): void {
    if (this.#signedIn === name) return;
    if (this.#signedIn !== '') throw otherAccountError();
    this.#signedIn = name;
    this.name = this.name === '' ? name : `${this.name}.${name}`;
  }
}

/** Returns the error for tokens that belong to another account than the connection was started for. */
function otherAccountError(): ValiseError {
  return new ValiseError('other-account', 'The user has signed in with another account.', {
    next: 'Connect again. Sessions and state of the previous account are not used for this one.',
  });
}

const CREDENTIALS = /auth|cookie|token|key|secret|credential|session|user|account|tenant/i;

/** Returns the account that manually set headers identify, or `''` if none of them is a credential. */
export function accountOfHeaders(init: RequestInit['headers'], principal: string): string {
  const headers = [...new Headers(init)].filter(([name]) => CREDENTIALS.test(name));
  const [first, ...others] = headers;
  if (!first) return '';
  const [name, value] = first;
  const token =
    name === 'authorization' && others.length === 0 ? /^bearer +(\S+)$/i.exec(value)?.[1] : undefined;
  if (token !== undefined && subjectOf(token) !== undefined) return accountOfToken(token);
  // If the host names its users, opaque credentials of one user may change.
  if (principal !== '') return '';
  return token === undefined ? `headers-${nameOf(JSON.stringify(headers))}` : accountOfToken(token);
}

/** Returns the account of a token: its subject if it is a JWT with one, or else a digest of the token. */
function accountOfToken(token: string): string {
  const subject = subjectOf(token);
  return subject === undefined ? `token-${nameOf(token)}` : `${SUBJECT}${nameOf(subject)}`;
}

/** The user who has signed in, as stored with the credentials. */
export interface SignedIn {
  readonly account?: string | undefined;
  /** The subject of the tokens, if one of them names it. It is also an account, as the issuer names it. */
  readonly subject?: string | undefined;
}

/**
 * Returns the account of a sign-in. It is the previous account, signed in again, unless that one has signed out or is known
 * to be another subject.
 */
export function accountOfSignIn(tokens: readonly (string | undefined)[], before: SignedIn): SignedIn {
  const token = tokens.find((one) => subjectOf(one) !== undefined);
  const subject = token === undefined ? undefined : accountOfToken(token);
  const isOther = subject !== undefined && before.subject !== undefined && subject !== before.subject;
  const account = isOther ? undefined : before.account;
  return {
    account: account ?? subject ?? `sign-in-${randomBytes(9).toString('base64url')}`,
    subject: subject ?? before.subject,
  };
}

const SUBJECT = 'subject-';

/** Whether an account is named after a token's subject, which stays the same when the token is renewed. */
export function isSubject(account: string): boolean {
  return account.startsWith(SUBJECT);
}

/** Returns the issuer and subject of a JWT. They are not verified, because they only select data stored on this machine. */
function subjectOf(token: string | undefined): string | undefined {
  const [, payload, signature] = token?.split('.') ?? [];
  if (payload === undefined || signature === undefined) return undefined;
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString());
    if (!isObject(claims) || !['string', 'number'].includes(typeof claims['sub'])) return undefined;
    return JSON.stringify([claims['iss'] ?? null, claims['sub']]);
  } catch {
    return undefined;
  }
}

const TTL = 90 * 86_400;

/**
 * Identifies the owner of tokens that the host renews itself. A token without a readable subject belongs to the account of
 * the token that it replaced during a connection. A token that was never seen before belongs to another account.
 */
export class TokenOwner {
  readonly #records: Collection<Members>;
  readonly #key: string;
  readonly #principal: string;
  #seen: string | undefined;

  constructor(store: Store, key: string, principal: string) {
    this.#records = collection(store, '', recordsOf('token owner record'));
    this.#key = key;
    this.#principal = principal;
  }

  /** Returns the account of the token that a connection starts with. */
  async of(token: string): Promise<string> {
    this.#seen = token;
    const own = accountOfToken(token);
    if (subjectOf(token) !== undefined) return own;
    if (this.#principal !== '') return '';
    const { token: known, account } = (await this.#records.get(this.#key))?.value ?? {};
    return known === own && typeof account === 'string' ? account : own;
  }

  /**
   * Records that a connection uses this token. A token that replaces another one belongs to the same account, unless its
   * subject differs.
   */
  async uses(token: string, account: Account): Promise<void> {
    if (this.#seen === token) return;
    const isFirst = this.#seen === undefined;
    if (isFirst || subjectOf(token) !== undefined) return account.signIn(await this.of(token));
    this.#seen = token;
    if (this.#principal !== '') return;
    const record = { token: accountOfToken(token), account: account.name };
    await this.#records.update(this.#key, () => record, { ttl: TTL });
  }
}

function nameOf(text: string): string {
  return sha256(`account\n${text}`).slice(0, 24);
}
