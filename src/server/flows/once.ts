import type { ValiseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { holdLease } from '../../store/kit/lease.ts';
import { notDone } from '../fault.ts';
import { jsonText } from '../json-text.ts';
import type { Caller } from '../quota.ts';
import { FlowError } from './errors.ts';
import { FLOW_LEASE, type FlowRecords, type RecordOptions } from './records.ts';
import type { Effect, OnceOptions } from './types.ts';

/** Runs an effect of a flow, unless it has already completed. */
export type Once = (
  key: string,
  effect: (effect: Effect) => Promise<Json | undefined>,
  options: OnceOptions,
) => Promise<Json | undefined>;

/** The settings of the effects of one flow. */
export interface OnceSetup {
  readonly flow: string;
  /**
   * Where claims are stored. Undefined without a store, and in a flow's first call.
   *
   * Only this process can repeat the first call, and it remembers what was done: the client has nothing yet to come back with.
   */
  readonly records: FlowRecords | undefined;
  readonly caller: Caller;
  /** Whether this run is the only one of its round. A claim that it finds then belongs to a run that died. */
  readonly exclusive: boolean;
  /** How long claims must be remembered, in seconds. */
  readonly ttl: number;
}

/** Creates the function that runs the effects of one flow. */
export function createOnce({ flow, records, caller, exclusive, ttl }: OnceSetup): Once {
  return async (key, effect, options) => {
    const idempotencyKey = sha256(JSON.stringify([flow, key]));
    if (!records) return plain(key, await effect({ idempotencyKey, attempt: 1 }));
    const name = `rounds/once/${idempotencyKey}`;
    const held = exclusive ? undefined : await holdLease(records, `${name}/lease`, FLOW_LEASE);
    if (!exclusive && !held) throw cutOff(key, 'is still under way elsewhere');
    try {
      return await claimed({ records, name, life: { ttl, caller, durable: true }, key, options }, (attempt) =>
        effect({ idempotencyKey, attempt }),
      );
    } finally {
      await held?.release();
    }
  };
}

interface Claim {
  readonly records: FlowRecords;
  readonly name: string;
  readonly life: Pick<RecordOptions, 'ttl' | 'caller' | 'durable'>;
  readonly key: string;
  readonly options: OnceOptions;
}

/**
 * Claims before the effect and completes after it, each conditionally, so that only one attempt completes even if leases fail.
 */
async function claimed(
  { records, name, life, key, options }: Claim,
  effect: (attempt: number) => Promise<Json | undefined>,
): Promise<Json | undefined> {
  let attempt = 1;
  let version = await records.put(name, { attempt }, { ...life, ifAbsent: true }).catch(notDone);
  if (version === undefined) {
    const found = await records.get(name);
    const mark = isObject(found?.value) ? found.value : {};
    if ('done' in mark) return valueIn(mark);
    if (options.cutOff !== 'retry') throw cutOff(key, 'was cut off in the middle');
    attempt = (typeof mark['attempt'] === 'number' ? mark['attempt'] : 0) + 1;
    version = await records.put(
      name,
      { attempt },
      {
        ...life,
        ...(found ? { ifVersion: found.version } : { ifAbsent: true }),
      },
    );
    if (version === undefined) throw cutOff(key, 'is under way elsewhere');
  }
  let value: Json | undefined;
  try {
    value = plain(key, await effect(attempt));
  } catch (error) {
    // The effect reported its failure, so nothing was cut off, and the next run may try again.
    await records.delete(name, { ifVersion: version });
    throw error;
  }
  const completed = await records.put(
    name,
    { done: value === undefined ? [] : [value] },
    { ...life, ifVersion: version },
  );
  if (completed !== undefined) return value;
  // This attempt outlived its claim. The result of the attempt that completed counts.
  const other = (await records.get(name))?.value;
  if (isObject(other) && 'done' in other) return valueIn(other);
  throw cutOff(key, 'lost its claim while it ran');
}

function valueIn(mark: Record<string, unknown>): Json | undefined {
  return Array.isArray(mark['done']) ? (mark['done'][0] as Json | undefined) : undefined;
}

/** Returns the value as later rounds will read it, so that the first round sees the same. */
function plain(key: string, value: unknown): Json | undefined {
  if (value === undefined || value === null) return value;
  try {
    return JSON.parse(jsonText(`What the effect "${key}" returned`, value)) as Json;
  } catch (error) {
    throw new FlowError('invalid-flow', (error as ValiseError).what, {
      key,
      next: 'Return plain data, or nothing.',
    });
  }
}

function cutOff(key: string, what: string): FlowError {
  return new FlowError(
    'outcome-unknown',
    `The effect "${key}" ${what}; nobody knows whether it took place.`,
    {
      key,
      next: "Look it up by its idempotency key, or let it be tried again with cutOff: 'retry'.",
    },
  );
}
