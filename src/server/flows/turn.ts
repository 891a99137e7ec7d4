import type { Json, JsonObject } from '../../json.ts';
import { isObject } from '../../json.ts';
import { canonicalJson } from '../../seal/canonical.ts';
import { SealError } from '../../seal/index.ts';
import { sha256 } from '../../sha256.ts';
import { holdLease } from '../../store/kit/lease.ts';
import type { Response } from '../../wire/index.ts';
import type { Reply } from '../exchange.ts';
import type { Caller } from '../quota.ts';
import type { Answered } from './context.ts';
import { FLOW_LEASE, type FlowRecords } from './records.ts';

/** The right to answer a round. */
export interface Turn {
  /** Whether nobody else can be answering the same round. */
  readonly exclusive: boolean;
  /** The earlier outcome of the same answer. If it is set, nothing must run again. */
  readonly outcome?: Reply;
  /** Marks the round as continued by another one. From here on no other answer is accepted. */
  goesOn(): Promise<void>;
  /** Marks the round as over once the call's response is out. The same answer then gets the same response. */
  done(response?: Response): void;
  /** Gives up the turn if nothing was sent. The same answer may be given again. */
  abandon(): Promise<void>;
}

/** The turn of a round that may be answered again. Nothing records it. */
export const SHARED: Turn = {
  exclusive: false,
  goesOn: async () => {},
  done: () => {},
  abandon: async () => {},
};

/** How much longer than its round the mark of an answered round lives, in seconds, since clocks differ. */
const SLACK = 180;

/** The record of an answered round. */
interface Mark {
  /** The digest of the answer. */
  readonly a: string;
  /** The outcome, if it has been sent. Empty if it is too large to store. */
  readonly r?: readonly [] | readonly [Reply];
}

/**
 * Takes the turn of a round, so that each round is answered once if there is a store to record it.
 *
 * The first answer is recorded before anything runs, and no other one is accepted from then on. If an instance dies in the
 * middle, or a client hangs up, the round stays open for the same answer, which gets the outcome of the first if there is one.
 */
export async function takeTurn(
  records: FlowRecords | undefined,
  answered: Answered,
  caller: Caller,
  failed: (error: unknown) => void,
): Promise<Turn> {
  if (!records) return SHARED;
  const { context } = answered;
  const { f, n, e } = context;
  const name = `rounds/turn/${f}.${n}`;
  const digest = digestOf(answered);
  const held = await holdLease(records, `${name}/lease`, FLOW_LEASE);
  if (!held) throw new SealError('replayed');
  const write = (mark: Mark): Promise<unknown> => {
    const ttl = Math.max(0, e - Math.floor(Date.now() / 1000)) + SLACK;
    return records.put(name, mark, { ttl, caller, durable: true });
  };
  let isNoted: boolean;
  try {
    const found = await records.get(name);
    const mark = found && (isObject(found.value) ? (found.value as unknown as Mark) : undefined);
    if (found && (mark?.a !== digest || mark.r?.length === 0)) throw new SealError('replayed');
    if (mark?.r?.[0]) {
      await held.release();
      return { ...SHARED, outcome: mark.r[0] };
    }
    isNoted = found !== undefined;
    // Without an answer, the caller is not bound to anything until the round continues.
    if (!isNoted && context.q?.some(([key]) => answered.answers.has(key))) {
      await write({ a: digest });
      isNoted = true;
    }
  } catch (error) {
    await held.release();
    throw error;
  }
  let over = false;
  return {
    exclusive: true,
    async goesOn() {
      if (!isNoted) await write({ a: digest });
      isNoted = true;
    },
    done(response) {
      if (over) return;
      over = true;
      write({ a: digest, r: response ? [replyOf(response)] : [] })
        .catch(() => write({ a: digest, r: [] }))
        .then(() => held.release())
        .catch(failed);
    },
    async abandon() {
      if (over) return;
      over = true;
      await held.release();
    },
  };
}

/** Returns a digest of the answers without `_meta`, which may differ each time they are sent. */
function digestOf({ context, answers }: Answered): string {
  const said = (context.q ?? []).map(([key]) => {
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

function replyOf(response: Response): Reply {
  return 'result' in response ? { result: response.result } : { error: response.error };
}
