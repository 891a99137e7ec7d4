import { seconds } from '../../core/duration.ts';
import { ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { ANYTHING, checkOptions, FLAG, SETTINGS, type Taken, type TakenBy } from '../../core/options.ts';
import type { Store } from '../../store/types.ts';
import type { FlowCodec } from './codec.ts';
import { FlowError } from './errors.ts';
import type { FlowMode, FlowOptions, QuestionKind } from './types.ts';

/**
 * What happens to a question if the client cannot put it to its user.
 *
 * - `error`: the handler gets the error `client-cannot`
 * - `url`: the result of the call is a link to a page of this server, where the user answers; needs `valise.http`
 * - `tool`: the model asks the user, and answers with the tool `answer_question`; never for consent or secrets
 */
export type Fallback = 'error' | 'url' | 'tool';

/** Options of a server's flows. */
export interface FlowsOptions {
  /** Where the context of a round is stored. The default is `carried-first` with a store, `carried` without one. */
  readonly mode?: FlowMode | undefined;
  /** How the context is encoded. It is sealed by default. */
  readonly codec?: (FlowCodec & { readonly plain?: true }) | undefined;
  /** Whether each round is answered only once, which needs a store. `false` accepts further answers until the round ends. */
  readonly singleUse?: boolean | undefined;
  /** Limits on what is stored for callers at a time. */
  readonly limits?: FlowLimits | undefined;
  /**
   * What happens to a question if the client cannot put it to its user.
   *
   * `'url'`: over HTTP, the call's result is a link to a page of this server, where the user answers; then the model calls
   * again. It needs `valise.http`, and a store if there are several processes. `'tool'`: the model asks the user and answers
   * with the tool `answer_question`. A model can make answers up, so questions for consent and secrets get a link, or an error
   * if there is none. `'error'`: the handler gets the error `client-cannot`.
   *
   * @defaultValue 'url'
   */
  readonly fallback?: Fallback | undefined;
  /**
   * The public URL of the page with questions, if it is not the URL of the MCP endpoint.
   *
   * Give it if a proxy changes the host or path of requests, or if the endpoint refuses browsers, which send no token. Any
   * handler in `valise.http` serves the page.
   */
  readonly page?: string | undefined;
}

/** The options of one flow with defaults applied. Durations are in seconds. */
export interface FlowSettings {
  readonly version: string | number | undefined;
  readonly otherVersion: 'fail' | 'restart';
  readonly ttl: number;
  readonly renew: number | undefined;
  readonly budget: number;
  readonly wait: readonly QuestionKind[];
  readonly mode: FlowMode;
}

const MODES: readonly FlowMode[] = ['stored', 'dual', 'carried-first', 'carried'];
const TTL = 600;
const BUDGET = 48 * 1024;

const TAKEN: TakenBy<FlowsOptions> = {
  mode: ANYTHING,
  codec: [
    'an object with the functions seal, open and recognizes',
    (value) =>
      isObject(value) && ['seal', 'open', 'recognizes'].every((name) => typeof value[name] === 'function'),
  ],
  singleUse: FLAG,
  limits: SETTINGS,
  fallback: ["'error', 'url' or 'tool'", (value) => ['error', 'url', 'tool'].includes(value as string)],
  page: [
    'a URL with http: or https:',
    (value) => typeof value === 'string' && /^https?:/.test(value) && URL.canParse(value),
  ],
};

/** Throws if an option of flows is unknown or has an invalid value. */
export function checkFlows(options: FlowsOptions): void {
  checkOptions('createValise, under flows,', options, TAKEN);
}

/** Checks a mode, and that there is a store if the mode needs one. */
export function readMode(mode: FlowMode | undefined, store: Store | undefined): FlowMode {
  const chosen = mode ?? (store ? 'carried-first' : 'carried');
  if (!MODES.includes(chosen)) {
    throw new ValiseError('invalid-argument', `${JSON.stringify(mode)} is not a mode of flows.`, {
      next: `Give one of ${MODES.join(', ')}.`,
    });
  }
  if (chosen !== 'carried' && !store) {
    throw new FlowError('no-store', `Flows are to be kept as "${chosen}", and there is no store.`, {
      next: "Give createValise a store, or set the mode to 'carried'.",
    });
  }
  return chosen;
}

const KINDS: readonly unknown[] = ['ask', 'sample', 'roots'] satisfies readonly QuestionKind[];

const TAKEN_BY_FLOW: TakenBy<FlowOptions> = {
  version: ['text or a number', (value) => typeof value === 'string' || typeof value === 'number'],
  otherVersion: ["'fail' or 'restart'", (value) => value === 'fail' || value === 'restart'],
  ttl: ANYTHING,
  renew: ANYTHING,
  budget: ['a number of bytes', (value) => Number.isInteger(value) && (value as number) > 0],
  wait: [
    `a list of ${KINDS.join(', ')}`,
    (value) => Array.isArray(value) && value.every((kind) => KINDS.includes(kind)),
  ],
  mode: ANYTHING,
};

/** Checks the options of a flow and applies defaults. */
export function readFlowOptions(
  options: FlowOptions,
  mode: FlowMode,
  store: Store | undefined,
): FlowSettings {
  checkOptions('valise.flow', options, TAKEN_BY_FLOW);
  const { version, otherVersion = 'fail', ttl = TTL, renew, budget = BUDGET, wait = [] } = options;
  return {
    version,
    otherVersion,
    ttl: Math.ceil(seconds(ttl)),
    renew: renew === undefined ? undefined : Math.ceil(seconds(renew)),
    budget,
    wait,
    mode: options.mode === undefined ? mode : readMode(options.mode, store),
  };
}

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

/** A share of the records that a server stores. */
export interface RecordShare {
  /**
   * The number of records.
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
}

/** A share of the server's limits. Records are contexts, outcomes and marks. */
export interface FlowShare extends RecordShare {
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
const TAKEN_LIMITS: TakenBy<FlowLimits> = { recordBytes: NUMBER, perCaller: SETTINGS, total: SETTINGS };
const RECORDS: TakenBy<RecordShare> = { records: NUMBER, bytes: NUMBER };
const SHARES = { flows: { ...RECORDS, waiting: NUMBER }, idempotency: RECORDS };

/** Checks the limits of flows, or of calls that may be repeated, and applies defaults. */
export function readLimits(of: keyof typeof SHARES, limits: FlowLimits = {}): Limits {
  checkOptions(`createValise, under ${of}.limits,`, limits, TAKEN_LIMITS);
  const { recordBytes = DEFAULTS.recordBytes } = limits;
  if (recordBytes > LONGEST) {
    throw new ValiseError('invalid-argument', `The option ${of}.limits.recordBytes is ${recordBytes}.`, {
      next: `Give at most ${LONGEST}.`,
    });
  }
  const share = (name: 'perCaller' | 'total'): Filled => {
    const own = limits[name] ?? {};
    checkOptions(`createValise, under ${of}.limits.${name},`, own, SHARES[of]);
    const { records, bytes, waiting } = DEFAULTS[name];
    return {
      records: own.records ?? records,
      bytes: own.bytes ?? bytes,
      waiting: own.waiting ?? waiting,
    };
  };
  return { recordBytes, perCaller: share('perCaller'), total: share('total') };
}
