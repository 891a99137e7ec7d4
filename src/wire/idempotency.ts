import { isObject } from '../core/json.ts';
import { INTERNAL_ERROR, INVALID_PARAMS, type Meta, type RpcError } from '../core/message.ts';
import { type Outcome, withOutcome } from './errors.ts';
import { DRAFTS, NAMES } from './names.ts';
import type { Problem } from './problem.ts';

const { key: KEY, repeat: REPEAT } = NAMES.modern.idempotency;

/** The `_meta` key with which a tool's config declares that its calls may be repeated. It is the same in both columns. */
export const IDEMPOTENT = NAMES.modern.idempotency.tool;

/** The maximum length of a key. */
export const MAX_IDEMPOTENCY_KEY = 255;

/** What a request says about repeating it. */
export interface IdempotencyReading {
  /** The client's key. The same key means the same call. */
  readonly key: string;
  /** Whether the client has sent the call before and the answer was lost. */
  readonly isRepeat: boolean;
}

/** Reads the key of a call. Returns undefined if it has none. */
export function readIdempotency(meta: Meta | undefined): IdempotencyReading | Problem | undefined {
  if (meta === undefined) return undefined;
  const key = meta[KEY] ?? meta[DRAFTS.idempotencyKey];
  if (key === undefined) return undefined;
  if (typeof key !== 'string') return { problem: 'wrong-type', where: `_meta["${KEY}"]` };
  if (key.length > MAX_IDEMPOTENCY_KEY || !/^[!-~]+$/.test(key))
    return { problem: 'bad-value', where: `_meta["${KEY}"]` };
  return { key, isRepeat: meta[REPEAT] === true };
}

/** Returns the `_meta` of a call with a key. */
export function writeIdempotency({ key, isRepeat }: IdempotencyReading): Meta {
  return isRepeat ? { [KEY]: key, [REPEAT]: true } : { [KEY]: key };
}

/** Why a call with a key did not get a result of its own or a recorded one. */
export type IdempotencyRefusal =
  /** The key cannot be read, or is too short for a caller that nothing else tells from others. */
  | 'invalid-key'
  /** The key was used for another call. */
  | 'key-reused'
  /** The tool has not been declared as one whose calls may be repeated, so the repeat did not run. */
  | 'not-repeatable'
  /** The earlier call was cut off in the middle, and nobody knows whether it took effect. */
  | 'outcome-unknown'
  /** The earlier call still runs. */
  | 'still-running'
  /** The earlier call is done, and its result was too large to keep. */
  | 'result-not-kept'
  /** The server has no room for another key. */
  | 'limit-reached';

const REFUSALS: Readonly<
  Record<IdempotencyRefusal, readonly [code: number, outcome: Outcome, text: string]>
> = {
  'invalid-key': [
    INVALID_PARAMS,
    'not-done',
    `The idempotency key is not accepted: use 1 to ${MAX_IDEMPOTENCY_KEY} visible ASCII characters, and without a verified principal at least 22 random ones.`,
  ],
  'key-reused': [
    INVALID_PARAMS,
    'not-done',
    'This idempotency key was used for another call. Use a new key for each call.',
  ],
  'not-repeatable': [
    INTERNAL_ERROR,
    'unknown',
    'The answer to this call was lost, and its tool cannot be called again safely. Check whether it took effect before you call it again.',
  ],
  'outcome-unknown': [
    INTERNAL_ERROR,
    'unknown',
    'The call was cut off in the middle, and the server does not know whether it took effect. Check before you call again with a new key.',
  ],
  'still-running': [
    INTERNAL_ERROR,
    'unknown',
    'The call is still running. Send it again later, with the same key.',
  ],
  'result-not-kept': [
    INTERNAL_ERROR,
    'unknown',
    'The call was done, and its result was too large to be kept. It was not done again.',
  ],
  'limit-reached': [
    INTERNAL_ERROR,
    'not-done',
    'The server cannot record another call at the moment. Nothing was done. Try again later.',
  ],
};

/** Returns the error for a call with a key. Its data has the reason as `code`. */
export function idempotencyError(reason: IdempotencyRefusal): RpcError {
  const [code, outcome, message] = REFUSALS[reason];
  return withOutcome({ code, message, data: { code: reason } }, outcome);
}

/** Returns the reason in an error for a call with a key, or undefined if it is another error. */
export function readIdempotencyError({ data }: { readonly data?: unknown }): IdempotencyRefusal | undefined {
  const code = isObject(data) ? data.code : undefined;
  return typeof code === 'string' && Object.hasOwn(REFUSALS, code) ? (code as IdempotencyRefusal) : undefined;
}
