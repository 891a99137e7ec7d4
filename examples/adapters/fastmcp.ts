/** FastMCP: the instances of a server share what its OAuth proxy stores, and each code is redeemed once. */
import { OAuthProxy, type OAuthProxyConfig } from 'fastmcp/auth';
import { tokenStorage } from 'mcp-valise/adapters';
import type { Store } from 'mcp-valise/store';

/** All instances need the same `encryptionKey`, `jwtSigningKey` and `consentSigningKey`. */
export function openProxy(store: Store, config: OAuthProxyConfig): OAuthProxy {
  return new OAuthProxy({ ...config, tokenStorage: tokenStorage(store) });
}
