import { seconds } from '../duration.ts';
import { ValiseError } from '../errors.ts';
import { type Keyring, loadKeys, parseKeys } from './keyring.ts';
import type { OpenOptions, SealerOptions, SpillOptions } from './types.ts';

/** The options of a sealer, validated and with defaults applied. Durations are whole seconds. */
export interface Settings {
  readonly keys: Keyring;
  readonly audience: string;
  readonly ttl: number;
  readonly skew: number;
  readonly maxBytes: number;
  readonly compressAbove: number;
  readonly spill: { readonly [Name in keyof SpillOptions]-?: NonNullable<SpillOptions[Name]> } | undefined;
  readonly ledger: SealerOptions['ledger'];
  readonly onReject: SealerOptions['onReject'];
  readonly now: () => number;
}

const TTL = 600;
const SKEW = 60;
const MAX_BYTES = 2 * 1024 * 1024;
const SPILL_ABOVE = 8 * 1024;

export function readSettings(options: SealerOptions): Settings {
  const {
    audience = '',
    skew = SKEW,
    maxBytes = MAX_BYTES,
    spill,
    ledger,
    onReject,
    allowWeakKeys,
  } = options;
  const {
    keys = loadKeys({ allowWeakKeys }),
    compressAbove = Number.POSITIVE_INFINITY,
    now = () => Date.now(),
  } = options;
  if (typeof audience !== 'string') throw badOption('audience', 'a text');
  if (!(Number.isFinite(skew) && skew >= 0)) throw badOption('skew', 'a number of seconds');
  if (!(Number.isSafeInteger(maxBytes) && maxBytes > 0)) throw badOption('maxBytes', 'a number of bytes');
  if (!(compressAbove >= 0)) throw badOption('compressAbove', 'a number of bytes');
  return {
    keys: typeof keys === 'string' ? parseKeys(keys, { allowWeakKeys }) : keys,
    audience,
    ttl: wholeSeconds(options.ttl ?? TTL),
    skew,
    maxBytes,
    compressAbove,
    spill: spill && {
      store: spill.store,
      above: spill.above ?? SPILL_ABOVE,
      prefix: spill.prefix ?? 'seal/kept/',
    },
    ledger,
    onReject,
    now,
  };
}

/** Returns a lifetime in whole seconds, as stored in a token. */
export function wholeSeconds(duration: number | string): number {
  return Math.ceil(seconds(duration));
}

/** Returns the purpose, which every seal and open call must name. */
export function purposeOf(options: OpenOptions): string {
  const purpose: unknown = options?.purpose;
  if (typeof purpose === 'string' && purpose !== '') return purpose;
  throw badOption('purpose', 'a text of at least one character');
}

/** Returns the text of a subject for its digest. It is JSON, so that malformed text (lone surrogates) stays distinct in UTF-8. */
export function subjectTextOf({ subject }: OpenOptions): string | undefined {
  if (subject === undefined) return undefined;
  if (typeof subject !== 'string') throw badOption('subject', 'a text');
  return JSON.stringify(subject);
}

function badOption(name: string, what: string): ValiseError {
  return new ValiseError('invalid-argument', `The option ${name} of a seal is not ${what}.`, {
    next: `Give ${what}.`,
  });
}
