/**
 * Storage interfaces of the MCP SDKs and of frameworks, implemented on any Valise store and bus. The types are those of
 * the SDK or framework.
 *
 * @module
 */
export { eventBus } from './event-bus.ts';
export { eventStore } from './event-store.ts';
export { keyvStorage, storeFrom, unstorageDriver } from './key-value.ts';
export { mcpEventStore } from './mcp-event-store.ts';
export { clientsStore, oauthStorage, tokenStorage } from './oauth.ts';
export { requestStateCodec } from './request-state.ts';
export { responseCache } from './response-cache.ts';
export { subscriptionStore } from './subscription-store.ts';
export { taskMessageQueue, taskStore } from './tasks.ts';
export { transportStorage } from './transport-storage.ts';
