/**
 * Storage for Valise: one small contract; drivers for memory, files, SQLite, Redis and PostgreSQL;
 * and a bus to notify other instances.
 *
 * @module
 */
export type { Duration } from '../core/duration.ts';
export type { ValiseErrorCode } from '../core/error-codes.ts';
export { ValiseError, type ValiseErrorOptions } from '../core/errors.ts';
export type { Json } from '../core/json.ts';
export { fileStore } from './file/store.ts';
export { memoryBus } from './memory/bus.ts';
export { memoryStore } from './memory/store.ts';
export { namespaced } from './namespace.ts';
export { type OpenStoreOptions, openBus, openStore, sealInPlace } from './open.ts';
export { dropPlain } from './plain.ts';
export { reseal, sealedStore } from './sealed.ts';
export type { Bus, Entry, KeyPage, Lease, ListOptions, PutOptions, Store } from './types.ts';
