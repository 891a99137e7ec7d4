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
  /** True where nobody else can be answering the same round. */
  readonly exclusive: boolean;
  /** What came of the same answer before; nothing is to be run again. */
  readonly outcome?: Reply;
  /** The round goes on with another one: from here on no other answer is taken. */
  goesOn(): Promise<void>;
  /** The call's response is out: the round is over, and the same answer gets the same response. */
  done(response?: Response): void;
  /** Nothing has gone out: the same answer may be given again. */
  abandon(): Promise<void>;
}

/** The turn of a round that may be answered again: nobody remembers it. */
export const SHARED: Turn = {
  exclusive: false,
  goesOn: async () => {},
  done: () => {},
  abandon: async () => {},
};

/** How much longer than its round the mark of a used one lives, in seconds: clocks differ. */
const SLACK = 180;

/** What is kept of an answered round. */
interface Mark {
  /** The digest of the answer. */
  readonly a: string;
  /** What came of it, if that has gone out: nothing where it is too large to be kept. */
  readonly r?: readonly [] | readonly [Reply];
}

/**
 * Each round is answered once if there is a store to remember it. The first answer is noted before anything runs: no
 * other one is taken from then on. An instance that dies in the middle, or a client that hangs up, leaves the round open for the
 * same answer, and that gets the outcome of the first if there is one.
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
    return records.put(name, mark, { ttl, caller });
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
    // Without an answer there is nothing to hold the caller to until the round goes on.
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

/** What an answer says, without `_meta`: that may differ each time it is sent. */
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
    // Too deep to be compared, and to be read.
    throw new SealError('malformed');
  }
}

function replyOf(response: Response): Reply {
  return 'result' in response ? { result: response.result } : { error: response.error };
}
