import { ValiseError } from '../../errors.ts';
import { checkOptions, SETTINGS, type Taken, type TakenBy } from '../../options.ts';

/** Limits on what a server stores for its callers' rounds at a time. Each instance counts only what it stores itself. */
export interface FlowLimits {
  /**
   * The longest single record, in bytes: a stored context, an outcome that waits to be fetched, the answers of one call.
   *
   * The maximum is 1.5 MiB.
   *
   * @defaultValue 1 MiB
   */
  readonly recordBytes?: number | undefined;
  /** The limits for one principal, or for one anonymous transport session. */
  readonly perCaller?: FlowShare | undefined;
  /** The limits for all callers together. Anonymous callers get at most half of each. */
  readonly total?: FlowShare | undefined;
}

/** A share of the server's limits. */
export interface FlowShare {
  /**
   * The number of records: contexts, outcomes, marks.
   *
   * @defaultValue 10,000 per caller, 100,000 in total
   */
  readonly records?: number | undefined;
  /**
   * The total size of these records, in bytes.
   *
   * @defaultValue 16 MiB per caller, 128 MiB in total
   */
  readonly bytes?: number | undefined;
  /**
   * The number of waiting calls: questions in memory, and HTTP streams that deliver the outcome of an answer.
   *
   * @defaultValue 100 per caller, 10,000 in total
   */
  readonly waiting?: number | undefined;
}

type Filled = { readonly [Name in keyof FlowShare]-?: number };

/** The limits of stored records. */
export interface RecordLimits {
  readonly recordBytes: number;
  readonly perCaller: Omit<Filled, 'waiting'>;
  readonly total: Omit<Filled, 'waiting'>;
}

/** {@link FlowLimits} with defaults applied. */
export interface Limits {
  readonly recordBytes: number;
  readonly perCaller: Filled;
  readonly total: Filled;
}

const MIB = 1024 * 1024;
const DEFAULTS: Limits = {
  recordBytes: MIB,
  perCaller: { records: 10_000, bytes: 16 * MIB, waiting: 100 },
  total: { records: 100_000, bytes: 128 * MIB, waiting: 10_000 },
};
/** The most that a seal can hold. */
const LONGEST = 1.5 * MIB;

const NUMBER: Taken = ['a whole number', (value) => Number.isSafeInteger(value) && (value as number) >= 0];
const TAKEN: TakenBy<FlowLimits> = { recordBytes: NUMBER, perCaller: SETTINGS, total: SETTINGS };
const SHARE: TakenBy<FlowShare> = { records: NUMBER, bytes: NUMBER, waiting: NUMBER };

/** Checks the limits and applies defaults. */
export function readLimits(limits: FlowLimits = {}): Limits {
  checkOptions('createValise, under flows.limits,', limits, TAKEN);
  const { recordBytes = DEFAULTS.recordBytes } = limits;
  if (recordBytes > LONGEST) {
    throw new ValiseError('invalid-argument', `The option flows.limits.recordBytes is ${recordBytes}.`, {
      next: `Give at most ${LONGEST}.`,
    });
  }
  return { recordBytes, perCaller: share('perCaller', limits), total: share('total', limits) };
}

function share(name: 'perCaller' | 'total', limits: FlowLimits): Filled {
  const given = limits[name] ?? {};
  checkOptions(`createValise, under flows.limits.${name},`, given, SHARE);
  const {
    records = DEFAULTS[name].records,
    bytes = DEFAULTS[name].bytes,
    waiting = DEFAULTS[name].waiting,
  } = given;
  return { records, bytes, waiting };
}
