/**
 * Sealed, bound and expiring tokens for state that travels through untrusted hands.
 *
 * @module
 */
export type { Duration } from '../core/duration.ts';
export type { ValiseErrorCode } from '../core/error-codes.ts';
export { ValiseError } from '../core/errors.ts';
export type { Json } from '../core/json.ts';
export { SealError, type SealReason } from './error.ts';
export { generateKey, type Keyring, loadKeys, parseKeys } from './keyring.ts';
export { type Ledger, memoryLedger, storeLedger } from './ledger.ts';
export type { OpenOptions, Sealer, SealerOptions, SealOptions, TokenDescription } from './options.ts';
export { createSealer } from './sealer.ts';
export { inspectToken } from './token.ts';
