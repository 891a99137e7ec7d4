import { randomBytes } from 'node:crypto';
import { ValiseError } from '../errors.ts';
import { isObject } from '../json.ts';
import { sha256 } from '../sha256.ts';
import { type Collection, collection, type Members, recordsOf } from '../store/kit/collection.ts';
import type { Store } from '../store/types.ts';

/**
 * The account at the server that a connection acts for, as a digest; `''` if nothing tells. What a client keeps for one
 * account is never sent for another (S-05).
 */
export class Account {
  /** From headers that the host sets itself. */
  readonly #given: string;
  #signedIn = '';
  #began: string | undefined;

  constructor(given = '') {
    this.#given = given;
  }

  get name(): string {
    return [this.#given, this.#signedIn].filter((part) => part !== '').join('.');
  }

  /** The part of the name that comes from tokens. */
  get signedIn(): string {
    return this.#signedIn;
  }

  /** Whether something that is kept under this name may be used: it is this account's, or the connection began under it. */
  owns(name: string): boolean {
    return name === this.name || name === this.#began;
  }

  /** A connection begins. If the user signs in while it is open, what it has begun goes on as that account's. */
  begin(): void {
    this.#began = this.name;
  }

  /** The account that the tokens of this connection belong to. Throws if they were another account's before. */
  signIn(name: string): void {
    if (this.#signedIn === name) return;
    if (this.#signedIn !== '') throw otherAccountError();
    this.#signedIn = name;
  }
}

/** Thrown when the tokens of a connection turn out to be another account's than the connection was begun for. */
function otherAccountError(): ValiseError {
  return new ValiseError('other-account', 'The user has signed in with another account.', {
    next: 'Connect again: sessions and state of the account before are not used for this one.',
  });
}

const CREDENTIALS = /auth|cookie|token|key|secret|credential|session|user|account|tenant/i;

/** The account that headers set by hand stand for; `''` if none of them is a credential. */
export function accountOfHeaders(given: RequestInit['headers'], principal: string): string {
  const headers = [...new Headers(given)].filter(([name]) => CREDENTIALS.test(name));
  const [first, ...others] = headers;
  if (!first) return '';
  const [name, value] = first;
  const token =
    name === 'authorization' && others.length === 0 ? /^bearer +(\S+)$/i.exec(value)?.[1] : undefined;
  if (token !== undefined && subjectOf(token) !== undefined) return accountOfToken(token);
  // Where the host names its users, credentials that say nothing may change for one of them.
  if (principal !== '') return '';
  return token === undefined ? `headers-${nameOf(JSON.stringify(headers))}` : accountOfToken(token);
}

/** The account of a token: its subject if it is a JWT that has one, else a digest of the token. */
function accountOfToken(token: string): string {
  const subject = subjectOf(token);
  return subject === undefined ? `token-${nameOf(token)}` : `${SUBJECT}${nameOf(subject)}`;
}

/** Who has signed in, as credentials have it. */
export interface SignedIn {
  readonly account?: string | undefined;
  /** The subject of the tokens, if one of them has said so: an account as well, in the words of the issuer. */
  readonly subject?: string | undefined;
}

/**
 * The account that a sign-in was made with. It is the one before, which has only signed in again, unless that one has
 * signed out or is known to be another subject.
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

/** Whether the name of an account is that of a token's subject, which stays the same when the token is renewed. */
export function isSubject(account: string): boolean {
  return account.startsWith(SUBJECT);
}

/** Issuer and subject of a JWT, unverified: they only choose among what is kept on this machine. */
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
 * Whose tokens are that the host renews itself. A token without a readable subject belongs to the account of the token
 * that it replaced during a connection; one that was never seen before is another account's.
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

  /** The account of a token, which a connection begins with. */
  async of(token: string): Promise<string> {
    this.#seen = token;
    const own = accountOfToken(token);
    if (subjectOf(token) !== undefined) return own;
    if (this.#principal !== '') return '';
    const { token: known, account } = (await this.#records.get(this.#key))?.value ?? {};
    return known === own && typeof account === 'string' ? account : own;
  }

  /** A connection uses this token: if it replaced another one, it is of the same account, unless it says otherwise. */
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
