import type { Json, JsonObject } from '../../core/json.ts';
import { isObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { canonicalJson } from '../../seal/canonical.ts';
import { SealError } from '../../seal/index.ts';
import { holdLease } from '../../store/kit/lease.ts';
import type { Response } from '../../wire/index.ts';
import type { Reply } from '../exchange.ts';
import type { Caller } from '../quota.ts';
import type { Answered } from './continuation.ts';
import { FLOW_LEASE, type FlowRecords } from './records.ts';

/** The right to continue a round. */
export interface RoundLease {
  /** Whether nobody else can be continuing the same round. */
  readonly exclusive: boolean;
  /** The earlier outcome of the same answer. If it is set, nothing must run again. */
  readonly outcome?: Reply;
  /** Marks the round as continued by another one. From here on no other answer is accepted. */
  goesOn(): Promise<void>;
  /** Marks the round as over once the call's response is out. The same answer then gets the same response. */
  done(response: Response): void;
  /** Releases the lease if nothing was sent. The same answer may be sent again. */
  release(): Promise<void>;
}

/** The lease of a round that may be answered again. Nothing records it. */
export const SHARED: RoundLease = {
  exclusive: false,
  goesOn: async () => {},
  done: () => {},
  release: async () => {},
};

/** How much longer than its round the record of its answer lives, in seconds, since clocks differ. */
const SLACK = 180;

/** The record of an answered round. */
interface Mark {
  /** The digest of the answer. */
  readonly a: string;
  /** The outcome, if it has been sent. Empty if it is too large to store. */
  readonly r?: readonly [] | readonly [Reply];
}

/**
 * Takes the lease of a round, so that each round is answered once if there is a store to record it.
 *
 * The first answer is recorded before anything runs, and no other one is accepted from then on. If an instance dies in the
 * middle, or a client hangs up, the round stays open for the same answer, which gets the outcome of the first if there is one.
 */
export async function leaseRound(
  records: FlowRecords,
  answered: Answered,
  caller: Caller,
  failed: (error: unknown) => void,
): Promise<RoundLease> {
  const { continuation, answers } = answered;
  const { f, n, e } = continuation;
  const name = `rounds/turn/${f}.${n}`;
  const digest = digestOf(answered);
  const lease = await holdLease(records, `${name}/lease`, FLOW_LEASE);
  if (!lease) throw new SealError('replayed');
  const write = (mark: Mark): Promise<unknown> => {
    const ttl = Math.max(0, e - Math.floor(Date.now() / 1000)) + SLACK;
    return records.put(name, mark, { ttl, caller, durable: true });
  };
  let isRecorded: boolean;
  try {
    const found = await records.get(name);
    const mark = found && (isObject(found.value) ? (found.value as unknown as Mark) : undefined);
    if (found && (mark?.a !== digest || mark.r?.length === 0)) throw new SealError('replayed');
    if (mark?.r?.[0]) {
      await lease.release();
      return { ...SHARED, outcome: mark.r[0] };
    }
    isRecorded = found !== undefined;
    // Without an answer, the caller is not bound to anything until the round continues.
    if (!isRecorded && continuation.q?.some(([key]) => answers.has(key))) {
      await write({ a: digest });
      isRecorded = true;
    }
  } catch (error) {
    await lease.release();
    throw error;
  }
  let isOver = false;
  return {
    exclusive: true,
    async goesOn() {
      if (!isRecorded) await write({ a: digest });
      isRecorded = true;
    },
    done(response) {
      if (isOver) return;
      isOver = true;
      const reply = 'result' in response ? { result: response.result } : { error: response.error };
      write({ a: digest, r: [reply] })
        .catch(() => write({ a: digest, r: [] }))
        .then(() => lease.release())
        .catch(failed);
    },
    async release() {
      if (isOver) return;
      isOver = true;
      await lease.release();
    },
  };
}

/** Returns a digest of the answers without `_meta`, which may differ each time they are sent. */
function digestOf({ continuation, answers }: Answered): string {
  const said = (continuation.q ?? []).map(([key]) => {
    const answer = answers.get(key);
    if (!answer || 'error' in answer) return answer ? [answer.error as unknown as Json] : null;
    const { _meta, ...result } = answer.result;
    return result as JsonObject;
  });
  try {
    return sha256(canonicalJson(said));
  } catch {
    // The answer is nested too deeply to be compared or read.
    throw new SealError('malformed');
  }
}
