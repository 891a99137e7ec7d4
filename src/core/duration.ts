import { ValiseError } from './errors.ts';

/**
 * A number of seconds, or text such as `'90s'`, `'10m'`, `'4h'`, `'30d'`. Only option objects accept it; internal
 * durations are seconds.
 */
export type Duration = number | string;

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/**
 * Converts a duration to seconds.
 *
 * @example
 * ```ts
 * seconds('4h'); // 14400
 * ```
 */
export function seconds(duration: Duration): number {
  const value = typeof duration === 'number' ? duration : parse(duration);
  if (!Number.isFinite(value) || value <= 0) {
    throw new ValiseError('invalid-argument', `${JSON.stringify(duration)} is not a duration.`, {
      next: "Give a positive number of seconds, or text such as '90s', '10m', '4h', '30d'.",
    });
  }
  return value;
}

function parse(text: string): number {
  const match = /^(\d{1,9})(s|m|h|d)$/.exec(text);
  return match ? Number(match[1]) * (UNITS[match[2] as string] ?? Number.NaN) : Number.NaN;
}
