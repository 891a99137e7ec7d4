import { seconds } from '../../duration.ts';
import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { ANYTHING, checkOptions, FLAG, SETTINGS, type TakenBy } from '../../options.ts';
import type { Store } from '../../store/types.ts';
import type { Fallback } from '../carriers/fallback.ts';
import type { FlowCodec } from './codec.ts';
import { FlowError } from './errors.ts';
import type { FlowLimits } from './limits.ts';
import type { FlowMode, FlowOptions, QuestionKind } from './types.ts';

/** Options of a server's rounds. */
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
   * where there is none. `'error'`: the handler gets the error `client-cannot`.
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
    'an object with the functions seal, open and recognises',
    (value) =>
      isObject(value) && ['seal', 'open', 'recognises'].every((name) => typeof value[name] === 'function'),
  ],
  singleUse: FLAG,
  limits: SETTINGS,
  fallback: ["'error', 'url' or 'tool'", (value) => ['error', 'url', 'tool'].includes(value as string)],
  page: [
    'a URL with http: or https:',
    (value) => typeof value === 'string' && /^https?:/.test(value) && URL.canParse(value),
  ],
};

/** Throws if an option of rounds is unknown or has an invalid value. */
export function checkRounds(options: FlowsOptions): void {
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
    throw new FlowError('no-store', `Rounds are to be kept as "${chosen}", and there is no store.`, {
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
