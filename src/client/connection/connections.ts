import type { ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { checkOptions, FUNCTION, type TakenBy } from '../../core/options.ts';
import { redactUrls } from '../../core/redact-urls.ts';
import type { FetchLike } from '../../edge/fetch.ts';
import { documentFetch, type MessageLimit } from '../../edge/limit.ts';
import { collection } from '../../store/kit/collection.ts';
import type { Store } from '../../store/types.ts';
import { SESSIONFUL } from '../../wire/codec.ts';
import type { Era } from '../../wire/index.ts';
import { isSubject } from '../identity/account.ts';
import {
  type ConnectionId,
  fingerprint,
  keyOf,
  prefixOf,
  targetKey,
  webAddress,
} from '../identity/target.ts';
import { CREDENTIALS, CredentialKeeper, type Credentials, readCredentials } from '../oauth/credentials.ts';
import { EndpointGuard } from '../oauth/endpoints.ts';
import { OWN_CLIENT } from '../oauth/options.ts';
import type { KeptIn, SecretPlaces } from '../oauth/secrets.ts';
import { type OwnClient, type Revoked, refreshIn, revoke, worstOf } from '../oauth/token-requests.ts';
import { readSnapshot, SNAPSHOTS, SnapshotKeeper } from './snapshot.ts';

/** Stored information about a connection. It contains no secrets, except possibly in the query of `target`. */
export interface ConnectionInfo {
  /** The server's full URL, as `forget` and `logout` take it. Its query may contain secrets: do not log it. */
  readonly target: string;
  readonly principal: string;
  readonly era?: Era;
  readonly protocolVersion?: string;
  /** A short fingerprint of the transport's session: enough to tell two apart, but not to use one. */
  readonly session?: string;
  /** The server's name and version, as it reports them. */
  readonly server?: { readonly name: string; readonly version: string };
  /** When the server introduced itself. */
  readonly savedAt?: Date;
  /** Whether there are tokens. */
  readonly signedIn: boolean;
  /** The authorization server that issued the tokens. */
  readonly issuer?: string;
  /** When the access token expires. */
  readonly tokenExpiresAt?: Date;
  /** Whether the token can be refreshed without the user. */
  readonly renewable?: boolean;
  /** The scope that the token was granted, if the authorization server said so. */
  readonly scope?: string;
  /** Where the tokens are stored. */
  readonly keptIn?: KeptIn;
  /** The id of the process that refreshes the tokens right now. */
  readonly refreshedBy?: number;
}

/** The stored state of HTTP connections. */
export interface Connections {
  /** Lists all connections, or those with one target. */
  list(target?: string | URL): Promise<ConnectionInfo[]>;
  /** Deletes sessions and their state, pending questions, metadata and credentials here. Returns true if there was anything. */
  forget(target: string | URL): Promise<boolean>;
  /**
   * Refreshes the tokens now, even if they have not expired. Returns false if there are none that can be refreshed here.
   * Throws `sign-in-failed` if the authorization server issues no new ones.
   */
  refresh(target: string | URL, options?: RefreshOptions): Promise<boolean>;
  /** Asks the authorization server to revoke the tokens, if it is reachable, and deletes everything as `forget` does. */
  logout(target: string | URL, options?: LogoutOptions): Promise<boolean>;
}

/** Options for {@link Connections.refresh}. */
export interface RefreshOptions {
  /** Replaces the global `fetch`. */
  readonly fetch?: FetchLike | undefined;
}

/** Options for {@link Connections.logout}. */
export interface LogoutOptions extends RefreshOptions {
  /**
   * The registration that the user signed in with, if it was an existing one (`auth.client`) with a secret. The secret is
   * not stored; without it, the tokens are not revoked (`'needs-secret'`).
   */
  readonly client?: OwnClient | undefined;
  /** Called with the outcome of the revocation. The tokens are deleted here in any case. */
  readonly onRevoked?: ((how: Revoked) => void) | undefined;
}

const REFRESH: TakenBy<RefreshOptions> = { fetch: FUNCTION };
const LOGOUT: TakenBy<LogoutOptions> = { fetch: FUNCTION, client: OWN_CLIENT, onRevoked: FUNCTION };

/** The dependencies of {@link openConnections}. */
export interface ConnectionsParts {
  readonly store: Store;
  readonly principal: string;
  readonly limit: MessageLimit;
  /** Returns every place where credentials can be. */
  secrets(): Promise<SecretPlaces>;
  /** Reports what could not be read. */
  warn(what: string, next: string): void;
  /**
   * Ends the target's sessions, their state and pending questions, which must not outlive a sign-in. Resolves to false if
   * there were none.
   */
  ended(target: URL, sessionId: string | undefined, accounts: readonly string[]): Promise<boolean>;
}

/** Manages the stored state of one principal's connections. */
export function openConnections(parts: ConnectionsParts): Connections {
  const { store, secrets, principal, ended } = parts;
  const idOf = (target: string | URL): ConnectionId => ({
    target: targetKey({ kind: 'http', url: webAddress(target) }),
    principal,
  });

  /** Deletes everything. Returns the deleted credentials, and whether there was anything. */
  const remove = async (target: string | URL): Promise<{ isGone: boolean; credentials: Credentials[] }> => {
    const id = idOf(target);
    const { stores, problem } = await secrets();
    const keeper = new SnapshotKeeper(store, id);
    const { sessionId } = (await keeper.load(SESSIONFUL)) ?? {};
    const isForgotten = await keeper.forget();
    const places = stores.map((place) => new CredentialKeeper(place, id).forget());
    const credentials = (await Promise.all(places)).filter((each) => each !== undefined);
    if (problem && credentials.length === 0)
      parts.warn(
        `${problem.what} Tokens for ${redactUrls(id.target)} whose key is missing stay.`,
        'Sign out again on the machine that has the key.',
      );
    const orphans = credentials.flatMap(({ account }) =>
      account === undefined || isSubject(account) ? [] : [account],
    );
    const isEnded = await ended(new URL(target), sessionId, orphans);
    await store.delete(keyOf('account', id));
    return { isGone: isForgotten || isEnded || credentials.length > 0, credentials };
  };

  let isTold = false;
  /** Warns once that some sign-ins cannot be read. */
  const tellUnseen = ({ what }: ValiseError): void => {
    if (!isTold)
      parts.warn(
        `${what} Sign-ins whose key is missing are not shown.`,
        'Look again on the machine that has the key.',
      );
    isTold = true;
  };

  return {
    async list(target) {
      const infos = new Map<string, ConnectionInfo>();
      const add = (of: unknown, more: Partial<ConnectionInfo>): void => {
        const key = isObject(of) ? of['target'] : undefined;
        if (typeof key !== 'string') return;
        const before = infos.get(key) ?? { target: key, principal, signedIn: false };
        // If there are two snapshots, the later one counts.
        if (more.savedAt && before.savedAt && more.savedAt < before.savedAt) return;
        infos.set(key, { ...before, ...more });
      };
      const newer = ({ what, next = '' }: ValiseError): void => parts.warn(what, next);
      for await (const page of collection(store, '', SNAPSHOTS).pages(
        prefixOf('connection', principal),
        newer,
      ))
        for (const [, { value }] of page) add(value, connectionOf(value));
      const { stores, kinds, problem } = await secrets();
      for (const [at, place] of stores.entries())
        for await (const page of collection(place, '', CREDENTIALS).pages(
          prefixOf('credentials', principal),
          newer,
        ))
          for (const [, { value }] of page) add(value, credentialsOf(value, kinds[at]));
      const wanted = target === undefined ? undefined : idOf(target).target;
      const found = [...infos.values()].filter(({ target: of }) => wanted === undefined || of === wanted);
      const isUnseen = found.length === 0 ? wanted !== undefined : found.some(({ signedIn }) => !signedIn);
      if (problem && isUnseen) tellUnseen(problem);
      return found.sort((one, other) => (one.target < other.target ? -1 : 1));
    },

    async forget(target) {
      return (await remove(target)).isGone;
    },

    async refresh(target, options = {}) {
      checkOptions('connections.refresh', options, REFRESH);
      const id = idOf(target);
      const guard = new EndpointGuard(webAddress(target));
      const checked = guard.fetch(documentFetch(options.fetch ?? fetch, parts.limit));
      for (const place of (await secrets()).stores)
        if (await refreshIn(new CredentialKeeper(place, id), checked)) return true;
      return false;
    },

    async logout(target, options = {}) {
      checkOptions('connections.logout', options, LOGOUT);
      const { fetch: base = fetch, client, onRevoked } = options;
      // Deletes before revoking: tokens that a refresh writes in between are included, and a later refresh finds no entry.
      const { isGone, credentials } = await remove(target);
      const checked = new EndpointGuard(webAddress(target)).fetch(documentFetch(base, parts.limit));
      const each = await Promise.all(credentials.map((one) => revoke(one, checked, client)));
      onRevoked?.(worstOf(each));
      return isGone;
    },
  };
}

function connectionOf(value: unknown): Partial<ConnectionInfo> {
  const snapshot = readSnapshot(value);
  if (!snapshot) return {};
  const { codec, protocolVersion, sessionId, savedAt, introduction } = snapshot;
  const server = introduction['serverInfo'] ?? Object.values(introduction._meta ?? {})[0];
  const { name, version } = isObject(server) ? server : {};
  return {
    era: codec.era,
    protocolVersion,
    savedAt: new Date(savedAt),
    ...(sessionId !== undefined && { session: fingerprint(sessionId) }),
    ...(typeof name === 'string' && { server: { name, version: String(version) } }),
  };
}

function credentialsOf(value: unknown, keptIn: KeptIn | undefined): Partial<ConnectionInfo> {
  const { tokens, issuer } = readCredentials(value);
  // The record of a refresh is beside the credentials.
  const { pid } = isObject(value) ? value : {};
  if (typeof pid === 'number') return { refreshedBy: pid };
  if (!tokens) return { ...(issuer !== undefined && { issuer }) };
  const { expiresAt, refresh_token } = tokens;
  return {
    signedIn: true,
    renewable: refresh_token !== undefined,
    ...(tokens.scope !== undefined && { scope: tokens.scope }),
    ...(keptIn !== undefined && { keptIn }),
    ...(issuer !== undefined && { issuer }),
    ...(expiresAt !== undefined && { tokenExpiresAt: new Date(expiresAt) }),
  };
}
