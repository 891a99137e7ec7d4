/**
 * Tools for testing applications that use Valise, and the contract of stores. Not for production.
 *
 * @module
 */
export type { ValiseErrorCode } from '../core/error-codes.ts';
export { ValiseError } from '../core/errors.ts';
export { storeContract } from './contract.ts';
export { busContract } from './contract-bus.ts';
export type { ContractOptions } from './contract-case.ts';
export { connectInProcess, handlerFetch, type InProcessOptions, linkedTransports } from './in-process.ts';
export { type VirtualClock, virtualClock } from './virtual-clock.ts';
