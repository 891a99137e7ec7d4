import { randomUUID } from 'node:crypto';
import { type Duration, seconds } from '../core/duration.ts';
import { ValiseError } from '../core/errors.ts';
import { isObject, type JsonObject } from '../core/json.ts';
import { ANYTHING, BYTES, checkOptions } from '../core/options.ts';
import { clock } from '../store/kit/clock.ts';
import { collection, type Schema } from '../store/kit/collection.ts';
import type { Store } from '../store/types.ts';
import { COUNT, keyPart, NAME, recordIndex, requireOption, shardedIndex, values } from './records.ts';

/** Limits on the number of registered clients and how long they are stored. */
export interface ClientsStoreOptions {
  /**
   * The idle timeout of a registration. Looking up a client counts as use.
   *
   * @defaultValue '90d'
   */
  readonly ttl?: Duration | undefined;
  /**
   * The maximum number of registered clients. Further registrations are rejected (`limit-reached`), so that a stranger
   * cannot evict a client.
   *
   * @defaultValue 1000
   */
  readonly maxClients?: number | undefined;
  /**
   * The maximum size of one client's metadata, in bytes of JSON. Larger registrations are rejected
   * (`too-large`).
   *
   * @defaultValue 16384
   */
  readonly maxBytes?: number | undefined;
}

/** The stored client: `OAuthClientInformationFull` of the MCP SDK. */
export interface RegisteredClient {
  readonly client_id: string;
  readonly redirect_uris: string[];
}

/** `OAuthRegisteredClientsStore` of the MCP SDK, version 1. */
export interface ClientsStore {
  getClient(clientId: string): Promise<RegisteredClient | undefined>;
  /** Stores a client, and assigns an id if it has none yet. */
  registerClient(client: { readonly redirect_uris: string[] }): Promise<RegisteredClient>;
}

const CLIENT: Schema<{ readonly client: RegisteredClient }> = {
  kind: 'registered client',
  version: 1,
  read({ client }) {
    if (!isObject(client)) return undefined;
    const { client_id, redirect_uris } = client;
    if (typeof client_id !== 'string' || !Array.isArray(redirect_uris)) return undefined;
    const isText = redirect_uris.every((uri) => typeof uri === 'string');
    return isText ? { client: { ...client, client_id, redirect_uris } } : undefined;
  },
};

const CLIENTS = 'adapters/clients/';

/**
 * Stores the clients that register with an authorization server on SDK version 1, for all instances that share the
 * store. Client secrets are stored unhashed, because the SDK compares them: use a sealed store.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const clients = clientsStore(await openStore('sqlite:state.db', { keys }));
 * const provider: OAuthServerProvider = { clientsStore: clients, ...rest };
 * ```
 */
export function clientsStore(store: Store, options: ClientsStoreOptions = {}): ClientsStore {
  checkOptions('clientsStore', options, { ttl: ANYTHING, maxClients: COUNT, maxBytes: BYTES });
  const { maxClients = 1000, maxBytes = 16_384 } = options;
  const ttl = seconds(options.ttl ?? '90d');
  const clients = collection(store, `${CLIENTS}client/`, CLIENT, { unlisted: true });
  const index = recordIndex(store, `${CLIENTS}index`, {
    max: maxClients,
    ttl,
    full: () => tooManyClients(maxClients),
  });
  return {
    async getClient(clientId) {
      const key = keyPart(clientId);
      const found = await clients.get(key);
      if (found?.value?.client.client_id !== clientId) return undefined;
      // A client is renewed in the second half of its lifetime, so that most lookups do not write.
      if (found.expiresAt !== undefined && found.expiresAt - clock.now() < ttl * 500) {
        await index.add(key);
        await clients.put(key, found.value, { ttl, ifVersion: found.version });
      }
      return found.value.client;
    },
    async registerClient(given) {
      const client: RegisteredClient = {
        client_id: randomUUID(),
        ...{ client_id_issued_at: Math.floor(clock.now() / 1000) },
        ...(JSON.parse(JSON.stringify(given)) as JsonObject & { readonly redirect_uris: string[] }),
      };
      if (Buffer.byteLength(JSON.stringify(client)) > maxBytes) throw clientTooLarge(maxBytes);
      const key = keyPart(client.client_id);
      await index.add(key);
      if ((await clients.put(key, { client }, { ttl, durable: true, ifAbsent: true })) === undefined)
        throw taken(client.client_id);
      return client;
    },
  };
}

function tooManyClients(max: number): ValiseError {
  return new ValiseError(
    'limit-reached',
    `The client was not registered: there are ${max} clients already.`,
    {
      next: 'Raise maxClients, or wait until unused clients have expired.',
      outcome: 'not-done',
    },
  );
}

function taken(id: string): ValiseError {
  return new ValiseError(
    'invalid-argument',
    `The client was not registered: the id ${JSON.stringify(id)} is taken.`,
    {
      next: 'Register without client_id.',
      outcome: 'not-done',
    },
  );
}

function clientTooLarge(max: number): ValiseError {
  return new ValiseError('too-large', `The client was not registered: its metadata is over ${max} bytes.`, {
    next: 'Send less metadata, or raise maxBytes.',
    outcome: 'not-done',
  });
}

/** Limits on the number of stored tokens and how long they are stored. */
export interface TokenStorageOptions {
  /**
   * The idle timeout of entries that FastMCP saves without a lifetime, such as registered clients.
   *
   * @defaultValue '90d'
   */
  readonly ttl?: Duration | undefined;
  /**
   * The maximum number of entries of each kind: clients, transactions, codes, tokens and so on. Further ones are
   * rejected (`limit-reached`), so that a stranger who registers clients evicts nobody. A limit above 256 is kept in
   * parts, and takes effect when one part is full, shortly before the whole is.
   *
   * @defaultValue 10000
   */
  readonly maxEntries?: number | undefined;
  /**
   * The maximum size of one entry, in bytes of JSON. Larger ones are rejected (`too-large`).
   *
   * @defaultValue 65536
   */
  readonly maxBytes?: number | undefined;
}

/** `TokenStorage` of FastMCP. */
export interface TokenStorage {
  get(key: string): Promise<unknown>;
  save(key: string, value: unknown, ttl?: number): Promise<void>;
  delete(key: string): Promise<void>;
  /** Reads and deletes an entry. At most one caller gets it, at whichever instance. */
  take(key: string): Promise<unknown>;
  /** Does nothing, because expired entries disappear by themselves. */
  cleanup(): Promise<void>;
}

const TOKENS = 'adapters/tokens/';

/**
 * Stores the codes, transactions, clients and tokens of FastMCP's OAuth proxy, for all instances that share the store.
 * An authorization code is redeemed once, at whichever instance.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const server = new FastMCP({ auth: new GoogleProvider({ ...app, tokenStorage: tokenStorage(store) }) });
 * ```
 */
export function tokenStorage(store: Store, options: TokenStorageOptions = {}): TokenStorage {
  checkOptions('tokenStorage', options, { ttl: ANYTHING, maxEntries: COUNT, maxBytes: BYTES });
  const { maxEntries: max = 10_000, maxBytes = 65_536 } = options;
  const ttl = seconds(options.ttl ?? '90d');
  const tokens = values(store, `${TOKENS}entry/`, {
    kind: 'token',
    ttl,
    maxBytes,
    indexOf: (key) =>
      shardedIndex(store, `${TOKENS}index/${kindOf(key)}`, { max, ttl, full: () => tooManyTokens(max) }),
  });
  return {
    get: async (key) => (await tokens.get(key)) ?? null,
    save: (key, value, lifetime) => tokens.set(key, value, lifetime),
    delete: (key) => tokens.delete(key),
    take: async (key) => (await tokens.take(key)) ?? null,
    async cleanup() {},
  };
}

/** FastMCP starts its keys with the kind of entry: `client:`, `code:` and so on. */
function kindOf(key: string): string {
  return keyPart(/^\w{1,32}:/.exec(key)?.[0] ?? '');
}

function tooManyTokens(max: number): ValiseError {
  return new ValiseError('limit-reached', `The entry was not stored: there are about ${max} of its kind.`, {
    next: 'Raise maxEntries, or wait until unused entries have expired.',
    outcome: 'not-done',
  });
}

/** The owner of the stored credentials, and their limits. */
export interface OAuthStorageOptions {
  /**
   * The server and the user that the credentials belong to, for example `user-7 https://mcp.example.com`. Mastra uses
   * the same keys for all of them.
   */
  readonly owner: string;
  /**
   * The idle timeout of the credentials.
   *
   * @defaultValue '90d'
   */
  readonly ttl?: Duration | undefined;
  /**
   * The maximum size of one value, in bytes of JSON. Larger ones are rejected (`too-large`).
   *
   * @defaultValue 65536
   */
  readonly maxBytes?: number | undefined;
}

/** `OAuthStorage` of Mastra. */
export interface OAuthStorage {
  get(key: string): Promise<string | undefined>;
  set(key: string, value: string): Promise<void>;
  delete(key: string): Promise<void>;
}

/**
 * Stores the credentials of one user at one server for `MCPOAuthClientProvider` of Mastra, so that a restart does not
 * sign the user out. Tokens are stored as they are: use a sealed store.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const provider = new MCPOAuthClientProvider({ ...client, storage: oauthStorage(store, { owner: `${user} ${url}` }) });
 * ```
 */
export function oauthStorage(store: Store, options: OAuthStorageOptions): OAuthStorage {
  checkOptions('oauthStorage', options, { owner: NAME, ttl: ANYTHING, maxBytes: BYTES });
  const owner = requireOption('oauthStorage', 'owner', options.owner);
  const ttl = seconds(options.ttl ?? '90d');
  const kept = values(store, `adapters/oauth/${keyPart(owner)}/`, {
    kind: 'credential',
    ttl,
    maxBytes: options.maxBytes ?? 65_536,
  });
  return {
    async get(key) {
      const value = await kept.get(key);
      return typeof value === 'string' ? value : undefined;
    },
    set: (key, value) => kept.set(key, value),
    delete: (key) => kept.delete(key),
  };
}
