/** AI SDK: any instance receives the webhooks of the events that one has subscribed to. */
import {
  createMCPClient,
  type Experimental_MCPEvent,
  experimental_createMCPEventWebhook,
  type MCPClient,
  type MCPClientConfig,
} from '@ai-sdk/mcp';
import { mcpEventStore } from 'mcp-valise/adapters';
import type { Store } from 'mcp-valise/store';

/** The events of one user at one server. Open the store with keys: it holds the secrets of the webhooks. */
export function openClient(
  store: Store,
  owner: string,
  transport: MCPClientConfig['transport'],
): Promise<MCPClient> {
  return createMCPClient({ transport, experimental_events: { store: mcpEventStore(store, { owner }) } });
}

/** The endpoint to serve at the URL that `experimental_events.subscribe` is given. */
export function openWebhook(
  store: Store,
  owner: string,
  onEvent: (event: Experimental_MCPEvent) => void,
): (request: Request) => Promise<Response> {
  return experimental_createMCPEventWebhook({
    store: mcpEventStore(store, { owner }),
    onEvent: async ({ event }) => onEvent(event),
  });
}
