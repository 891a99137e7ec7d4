/** Mastra: a user stays signed in when the host restarts. */
import { MCPOAuthClientProvider } from '@mastra/mcp';
import { oauthStorage } from 'mcp-valise/adapters';
import type { Store } from 'mcp-valise/store';

export function signIn(store: Store, user: string, server: string): MCPOAuthClientProvider {
  const redirectUrl = 'http://127.0.0.1:3000/callback';
  return new MCPOAuthClientProvider({
    redirectUrl,
    clientMetadata: { client_name: 'Notes', redirect_uris: [redirectUrl] },
    clientInformation: { client_id: 'notes' },
    storage: oauthStorage(store, { owner: `${user} ${server}` }),
  });
}
