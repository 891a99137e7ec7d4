import { type Duration, seconds } from '../../core/duration.ts';
import { isObject } from '../../core/json.ts';
import { ANYTHING, checkOptions, SETTINGS, type TakenBy } from '../../core/options.ts';
import { IDEMPOTENT } from '../../wire/index.ts';
import { type RecordLimits, type RecordShare, readLimits } from '../flows/options.ts';

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
  /**
   * The longest result that is kept, in bytes. The maximum is 1.5 MiB.
   *
   * @defaultValue 1 MiB
   */
  readonly recordBytes?: number | undefined;
  /** The limits for one principal, or for one anonymous caller. */
  readonly perCaller?: RecordShare | undefined;
  /** The limits for all callers together. Anonymous callers get at most half of each. */
  readonly total?: RecordShare | undefined;
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

const OPTIONS: TakenBy<IdempotencyOptions> = { keep: ANYTHING, join: ANYTHING, limits: SETTINGS };

/** {@link IdempotencyOptions} with defaults applied. Times are in seconds. */
export interface IdempotencySettings {
  readonly keep: number;
  readonly join: number;
  readonly limits: RecordLimits;
}

/** Checks the options and applies defaults. */
export function readIdempotencyOptions(options: IdempotencyOptions = {}): IdempotencySettings {
  checkOptions('createValise, under idempotency,', options, OPTIONS);
  const { keep = '1h', join = '50s', limits } = options;
  return { keep: seconds(keep), join: seconds(join), limits: readLimits('idempotency', limits) };
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
