/**
 * Sealed, bound and expiring tokens for state that travels through untrusted hands.
 *
 * @module
 */
export type { Duration } from '../duration.ts';
export type { ValiseErrorCode } from '../error-codes.ts';
export { ValiseError } from '../errors.ts';
export type { Json } from '../json.ts';
export { SealError, type SealReason } from './error.ts';
export { generateKey, type Keyring, loadKeys, parseKeys } from './keyring.ts';
export { type Ledger, memoryLedger, storeLedger } from './ledger.ts';
export { createSealer } from './sealer.ts';
export { inspectToken } from './token.ts';
export type { OpenOptions, Sealer, SealerOptions, SealOptions, TokenDescription } from './types.ts';
