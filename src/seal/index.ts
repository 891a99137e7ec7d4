/**
 * Sealed, bound and expiring tokens for state that travels through untrusted hands.
 *
 * @module
 */
export type { Duration } from '../duration.ts';
export type { ValiseErrorCode } from '../error-codes.ts';
export { ValiseError, type ValiseErrorOptions } from '../errors.ts';
export type { Json } from '../json.ts';
export { SealError, type SealReason } from './error.ts';
export { generateKey, type KeyOptions, type Keyring, loadKeys, parseKeys } from './keyring.ts';
export {
  type Ledger,
  type LedgerStore,
  type MemoryLedgerOptions,
  memoryLedger,
  storeLedger,
} from './ledger.ts';
export { createSealer } from './sealer.ts';
export { inspectToken, type TokenHeader } from './token.ts';
export type {
  OpenLargeOptions,
  OpenOptions,
  RejectEvent,
  Sealer,
  SealerOptions,
  SealOptions,
  SealWarning,
  SpillOptions,
  SpillStore,
  TokenDescription,
} from './types.ts';
