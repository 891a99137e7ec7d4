import { type Duration, seconds } from '../../duration.ts';
import { isObject } from '../../json.ts';
import { ANYTHING, checkOptions, SETTINGS, type Taken, type TakenBy } from '../../options.ts';
import { IDEMPOTENT } from '../../wire/index.ts';
import type { RecordLimits } from '../flows/limits.ts';

/** Options of calls that may be repeated. */
export interface IdempotencyOptions {
  /**
   * How long the result of a call is kept for a repeated one: seconds, or text such as `'1h'`.
   *
   * @defaultValue `'1h'`
   */
  readonly keep?: Duration | undefined;
  /**
   * How long a repeated call waits for the one that still runs, before it gets an error.
   *
   * @defaultValue `'50s'`
   */
  readonly join?: Duration | undefined;
  /** Limits on what is kept. A call that exceeds them is refused before it runs. Each instance counts its own records. */
  readonly limits?: IdempotencyLimits | undefined;
}

/** Limits on the records of calls that may be repeated. */
export interface IdempotencyLimits {
  /** The longest result that is kept, in bytes. @defaultValue 1 MiB */
  readonly recordBytes?: number | undefined;
  /** Records of one principal or one anonymous caller. @defaultValue 10,000 */
  readonly perCaller?: number | undefined;
  /** Records of all callers. Anonymous callers get at most half. @defaultValue 100,000 */
  readonly total?: number | undefined;
}

/** How one tool's calls may be repeated. */
export interface IdempotentOptions {
  /**
   * Treats calls without a key as the same call if the same principal sends the same arguments within this time.
   *
   * Calls of anonymous callers always need a key.
   *
   * @defaultValue calls without a key are never the same
   */
  readonly window?: Duration | undefined;
}

/** The settings of one tool. */
export interface Declared {
  /** In seconds. */
  readonly window: number | undefined;
}

/**
 * Declares that the calls of a tool may be repeated, in the `_meta` of its config. Clients see it in the list.
 *
 * @example
 * ```ts
 * server.registerTool('charge', { description, inputSchema, _meta: { ...idempotent } }, charge);
 * ```
 */
export const idempotent: { readonly [IDEMPOTENT]: true } = Object.freeze({ [IDEMPOTENT]: true });

const MIB = 1024 * 1024;
const NUMBER: Taken = ['a whole number', (value) => Number.isSafeInteger(value) && (value as number) >= 0];
const OPTIONS: TakenBy<IdempotencyOptions> = { keep: ANYTHING, join: ANYTHING, limits: SETTINGS };
const LIMITS: TakenBy<IdempotencyLimits> = { recordBytes: NUMBER, perCaller: NUMBER, total: NUMBER };

/** {@link IdempotencyOptions} with defaults applied. Times are in seconds. */
export interface IdempotencySettings {
  readonly keep: number;
  readonly join: number;
  readonly limits: RecordLimits;
}

/** Checks the options and applies defaults. */
export function readIdempotencyOptions(options: IdempotencyOptions = {}): IdempotencySettings {
  checkOptions('createValise, under idempotency,', options, OPTIONS);
  const { keep = '1h', join = '50s', limits = {} } = options;
  checkOptions('createValise, under idempotency.limits,', limits, LIMITS);
  const { recordBytes = MIB, perCaller = 10_000, total = 100_000 } = limits;
  return {
    keep: seconds(keep),
    join: seconds(join),
    limits: {
      recordBytes: Math.min(recordBytes, 1.5 * MIB),
      perCaller: { records: perCaller, bytes: 16 * MIB },
      total: { records: total, bytes: 128 * MIB },
    },
  };
}

/** Checks the options of one tool. */
export function readDeclared(options: IdempotentOptions): Declared {
  checkOptions('valise.idempotent()', options, { window: ANYTHING });
  return { window: options.window === undefined ? undefined : seconds(options.window) };
}

/** Reads what a tool's config declares. Returns undefined if it declares nothing. */
export function declaredIn(config: Readonly<Record<string, unknown>> | undefined): Declared | undefined {
  const declared = config?.[IDEMPOTENT];
  if (declared === true) return { window: undefined };
  return isObject(declared) ? readDeclared(declared as IdempotentOptions) : undefined;
}
