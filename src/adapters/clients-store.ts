import { randomUUID } from 'node:crypto';
import { type Duration, seconds } from '../duration.ts';
import { ValiseError } from '../errors.ts';
import { isObject, type JsonObject } from '../json.ts';
import { ANYTHING, BYTES, checkOptions } from '../options.ts';
import { clock } from '../store/kit/clock.ts';
import { collection, type Schema } from '../store/kit/collection.ts';
import type { Store } from '../store/types.ts';
import { COUNT, keyPart } from './limits.ts';
import { recordIndex } from './record-index.ts';

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

const SCHEMA: Schema<{ readonly client: RegisteredClient }> = {
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

const PREFIX = 'adapters/clients/';

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
  const clients = collection(store, `${PREFIX}client/`, SCHEMA, { unlisted: true });
  const index = recordIndex(store, `${PREFIX}index`, { max: maxClients, ttl, full: () => full(maxClients) });
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
      if (Buffer.byteLength(JSON.stringify(client)) > maxBytes) throw tooLarge(maxBytes);
      const key = keyPart(client.client_id);
      await index.add(key);
      if ((await clients.put(key, { client }, { ttl, durable: true, ifAbsent: true })) === undefined)
        throw taken(client.client_id);
      return client;
    },
  };
}

function full(max: number): ValiseError {
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

function tooLarge(max: number): ValiseError {
  return new ValiseError('too-large', `The client was not registered: its metadata is over ${max} bytes.`, {
    next: 'Send less metadata, or raise maxBytes.',
    outcome: 'not-done',
  });
}
