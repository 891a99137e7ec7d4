import { ValiseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import { inspectToken, type OpenOptions, SealError, type Sealer } from '../seal/index.ts';
import type { OpenLargeOptions } from '../seal/options.ts';

/** Notified of each seal before it is opened, once it is set. */
export interface SealWatch {
  opened?: (token: string) => void;
}

/**
 * Wraps a sealer so that a missing key counts as the server's fault.
 *
 * An instance with wrong keys must neither end what other instances keep alive, nor overwrite it. `retired` names keys that
 * have been removed for good. Their seals are refused, as is anything sealed by a key that lived only as long as its
 * process.
 */
export function ownKeys(sealer: Sealer, retired: readonly string[] = [], watch: SealWatch = {}): Sealer {
  if (sealer.ephemeral) return sealer;
  const judge = (token: string, error: unknown): never => {
    if (!(error instanceof SealError) || error.reason !== 'unknown-key') throw error;
    const { kid } = inspectToken(token);
    throw retired.includes(kid) ? error : unknownKey(kid, error);
  };
  return {
    ...sealer,
    open: (token, options) => {
      try {
        watch.opened?.(token);
        return sealer.open(token, options);
      } catch (error) {
        return judge(token, error);
      }
    },
    openOnce: <Value extends Json>(token: string, options: OpenOptions) => {
      watch.opened?.(token);
      return sealer.openOnce<Value>(token, options).catch((error: unknown) => judge(token, error));
    },
    openLarge: <Value extends Json>(token: string, options: OpenLargeOptions) => {
      watch.opened?.(token);
      return sealer.openLarge<Value>(token, options).catch((error: unknown) => judge(token, error));
    },
  };
}

/** Whether an error means that a key is missing on this server. */
export function isUnknownKey(error: unknown): boolean {
  return error instanceof ValiseError && !(error instanceof SealError) && error.code === 'no-keys';
}

function unknownKey(kid: string, cause: SealError): ValiseError {
  return new ValiseError(
    'no-keys',
    `Something was sealed with the key ${kid}, which is not on this keyring.`,
    {
      next: 'Give all instances the same keys, old ones included until nothing is sealed with them; if this key is gone for good, name its id in retiredKeys.',
      outcome: 'not-done',
      cause,
    },
  );
}
