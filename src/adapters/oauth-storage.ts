import { type Duration, seconds } from '../duration.ts';
import { ANYTHING, BYTES, checkOptions } from '../options.ts';
import type { Store } from '../store/types.ts';
import { keyPart, NAME, requireOption } from './limits.ts';
import { values } from './values.ts';

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
