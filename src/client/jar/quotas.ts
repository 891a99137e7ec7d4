import { ValiseError } from '../../errors.ts';
import { ANYTHING, checkOptions, type TakenBy } from '../../options.ts';
import type { JarQuotas } from './types.ts';

/** Quotas with all defaults filled in. */
export type Quotas = { readonly [Name in keyof JarQuotas]-?: number };

const FLOORS: Quotas = { bytesPerKey: 4096, keysPerServer: 20, keys: 300 };
// A 4,096-byte value takes about 5,500 bytes once its server has sealed it. The counts are 2.5 to 33 times the floors.
const USUAL: Quotas = { bytesPerKey: 8192, keysPerServer: 50, keys: 10_000 };

const TAKEN: TakenBy<JarQuotas> = { bytesPerKey: ANYTHING, keysPerServer: ANYTHING, keys: ANYTHING };

/** Reads the quotas of a jar. Throws if one is below its minimum. */
export function readQuotas(given: JarQuotas = {}): Quotas {
  checkOptions('openValise, under quotas,', given, TAKEN);
  const quotas = { ...USUAL };
  for (const name of Object.keys(FLOORS) as (keyof Quotas)[]) {
    const value = given[name] ?? USUAL[name];
    if (!Number.isInteger(value) || value < FLOORS[name]) {
      throw new ValiseError('bad-quota', `The quota ${name} cannot be ${String(value)}.`, {
        next: `Give a whole number of at least ${FLOORS[name]}: servers count on that much.`,
      });
    }
    quotas[name] = value;
  }
  return quotas;
}
