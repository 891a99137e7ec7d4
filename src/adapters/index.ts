/**
 * Storage interfaces of the MCP SDKs, implemented on any Valise store and bus.
 *
 * @module
 */
export { type EventStore, type EventStoreOptions, eventStore } from './event-store.ts';
