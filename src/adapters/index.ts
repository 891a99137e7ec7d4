/**
 * Storage interfaces of the MCP SDKs, implemented on any Valise store and bus.
 *
 * @module
 */
export {
  type ClientsStore,
  type ClientsStoreOptions,
  clientsStore,
  type RegisteredClient,
} from './clients-store.ts';
export { type EventBusOptions, eventBus, type ServerEvent, type ServerEventBus } from './event-bus.ts';
export { type EventStore, type EventStoreOptions, eventStore } from './event-store.ts';
export {
  type RequestStateCodec,
  type RequestStateCodecOptions,
  requestStateCodec,
} from './request-state.ts';
export {
  type CacheEntry,
  type CacheKey,
  type ResponseCache,
  type ResponseCacheOptions,
  responseCache,
} from './response-cache.ts';
export { type TaskMessageQueue, type TaskMessageQueueOptions, taskMessageQueue } from './task-queue.ts';
export {
  type Task,
  type TaskStatus,
  type TaskStore,
  type TaskStoreOptions,
  taskStore,
} from './task-store.ts';
