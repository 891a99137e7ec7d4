/**
 * Storage interfaces of the MCP SDKs and of frameworks, implemented on any Valise store and bus. The types are those of
 * the SDK or framework.
 *
 * @module
 */
export { clientsStore } from './clients-store.ts';
export { eventBus } from './event-bus.ts';
export { eventStore } from './event-store.ts';
export { keyvStorage } from './keyv.ts';
export { mcpEventStore } from './mcp-event-store.ts';
export { oauthStorage } from './oauth-storage.ts';
export { requestStateCodec } from './request-state.ts';
export { responseCache } from './response-cache.ts';
export { storeFrom } from './store-from.ts';
export { subscriptionStore } from './subscription-store.ts';
export { taskMessageQueue } from './task-queue.ts';
export { taskStore } from './task-store.ts';
export { tokenStorage } from './token-storage.ts';
export { transportStorage } from './transport-storage.ts';
export { unstorageDriver } from './unstorage.ts';
