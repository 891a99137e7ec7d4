import { messageOf, ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { withLease } from '../../store/kit/lease.ts';
import { secondsUntil } from '../../store/kit/update.ts';
import { EXPIRES_AT, type IdempotencyRefusal, type Params } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { Reply } from '../exchange.ts';
import { notDone } from '../fault.ts';
import { FlowRecords, type RecordKind } from '../flows/records.ts';
import type { Caller } from '../quota.ts';
import type { IdempotencySettings } from './options.ts';

/** The identity of a call: two calls with the same name are the same call. */
export interface CallName {
  /** The key in the store, made from the principal and the client's key. */
  readonly name: string;
  /** A digest of the tool and its arguments. The same key with other arguments is refused. */
  readonly digest: string;
  readonly caller: Caller;
  /** How long its record is kept, in seconds. */
  readonly keep: number;
}

/** How a call has ended. `released`: nothing was done, and the next one with the same key runs. */
export type Ending = { readonly done: Reply } | { readonly asked: Reply } | 'unknown' | 'released';

/** The reply of an earlier call, or why there is none. */
export type Recorded = Reply | { readonly refused: IdempotencyRefusal };

/**
 * The record of a call. `running` without a lease means that its instance died. A `done` record without a reply had one that
 * was too large to keep.
 */
interface CallRecord {
  readonly digest: string;
  readonly state: 'running' | 'asked' | 'done' | 'unknown';
  readonly reply?: Reply;
}

/** Stands for a record that this server did not write, which proves nothing. */
const FOREIGN: CallRecord = { digest: '', state: 'unknown' };

/** How long the lease of a call outlives its instance, in seconds. */
const LEASE = 6;

class LedgerFull extends ValiseError {}

const KIND: RecordKind = {
  purpose: 'call-record',
  family: 'idempotency',
  what: 'the record of a call',
  refusal: () =>
    new LedgerFull('limit-reached', 'There is no room for the record of another call.', {
      next: 'Raise idempotency.limits, or keep records for a shorter time.',
      outcome: 'not-done',
    }),
};

/** The calls that may be repeated, and their results. Records are sealed and expire. */
export class Ledger {
  readonly #records: FlowRecords;
  readonly #context: ServerContext;
  readonly #join: number;
  /** The calls that run in this process, so that a repeated one is woken at once. */
  readonly #running = new Map<string, Promise<unknown>>();

  constructor(context: ServerContext, { limits, join }: IdempotencySettings) {
    this.#context = context;
    this.#join = join;
    this.#records = new FlowRecords(context, limits, KIND);
  }

  /**
   * Runs a call, unless one with the same name has been run: then returns its reply, or waits for it while it runs.
   *
   * `run` resolves to how the call has ended, and is called at most once for a name until its record expires or is released.
   * Returns undefined if it was called.
   */
  async once(call: CallName, run: () => Promise<Ending>, signal: AbortSignal): Promise<Recorded | undefined> {
    const { name } = call;
    await this.#joined(name, signal);
    return withLease<Recorded | undefined>(this.#records, `${name}/lease`, () => this.#begin(call, run), {
      ttl: LEASE,
      wait: this.#join,
      signal,
      meanwhile: async () => {
        const found = await this.#read(call);
        return found && found.state !== 'running' ? replyOf(found, call) : undefined;
      },
      busy: () => ({ refused: 'still-running' }),
    });
  }

  /** Records the final reply of a call that asked before. A failure to do so is reported and changes nothing. */
  async finish(call: CallName, reply: Reply): Promise<void> {
    const found = await this.#read(call).catch(() => undefined);
    if (!found || (found.digest === call.digest && found.state === 'asked'))
      await this.#end(call, { done: reply });
  }

  /** Waits for a call of this process, so that its record is read only when it is there. */
  async #joined(name: string, signal: AbortSignal): Promise<void> {
    const running = this.#running.get(name);
    if (!running) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.#join * 1000);
      const woken = (): void => {
        clearTimeout(timer);
        resolve();
      };
      signal.addEventListener('abort', woken, { once: true });
      running.then(woken, woken);
    });
  }

  async #begin(call: CallName, run: () => Promise<Ending>): Promise<Recorded | undefined> {
    const { name, digest } = call;
    const claimed = await this.#claim(call);
    if (claimed === 'full') return { refused: 'limit-reached' };
    if (claimed === undefined) {
      const found = await this.#read(call);
      if (!found) return { refused: 'outcome-unknown' };
      // This instance has the lease, so whoever was running the call is gone.
      if (found.state === 'running' && found.digest === digest) {
        await this.#end(call, 'unknown');
        return { refused: 'outcome-unknown' };
      }
      return replyOf(found, call);
    }
    const running = this.#run(call, run);
    this.#running.set(name, running);
    await running.finally(() => this.#running.delete(name));
    return undefined;
  }

  async #run(call: CallName, run: () => Promise<Ending>): Promise<void> {
    let ending: Ending = 'unknown';
    try {
      ending = await run();
    } finally {
      await this.#end(call, ending);
    }
  }

  async #claim({ name, digest, caller, keep }: CallName): Promise<string | undefined | 'full'> {
    const record: CallRecord = { digest, state: 'running' };
    try {
      return await this.#records.put(name, record, { ttl: keep, caller, ifAbsent: true, durable: true });
    } catch (error) {
      return error instanceof LedgerFull ? 'full' : notDone(error);
    }
  }

  async #read({ name }: CallName): Promise<CallRecord | undefined> {
    const found = await this.#records.get(name);
    if (!found) return undefined;
    return isObject(found.value) ? (found.value as unknown as CallRecord) : FOREIGN;
  }

  /** Records how a call has ended. If that fails, the call counts as cut off, and a repeated one gets that error. */
  async #end({ name, digest, caller, keep }: CallName, ending: Ending): Promise<void> {
    const put = (record: CallRecord, ttl = keep): Promise<unknown> =>
      this.#records.put(name, record, { ttl, caller, durable: true });
    try {
      if (ending === 'released') await this.#records.delete(name);
      else if (ending === 'unknown') await put({ digest, state: 'unknown' });
      else {
        const state = 'done' in ending ? 'done' : 'asked';
        const reply = 'done' in ending ? ending.done : ending.asked;
        await put({ digest, state, reply }, state === 'asked' ? lifeOf(reply, keep) : keep).catch(
          (error: unknown) => {
            if (error instanceof LedgerFull) return put({ digest, state });
            throw error;
          },
        );
      }
    } catch (error) {
      this.#context.events.emit('warning', {
        what: `The end of a call could not be recorded: ${messageOf(error)}`,
        next: 'Check the store. If the call is repeated, the client is told that its outcome is unknown.',
      });
    }
  }
}

function replyOf(found: CallRecord, { digest }: CallName): Recorded {
  if (found.digest !== digest && found !== FOREIGN) return { refused: 'key-reused' };
  if (found.state === 'unknown') return { refused: 'outcome-unknown' };
  return found.reply ?? { refused: 'result-not-kept' };
}

/** Returns how long a reply is kept, in seconds. A question is not kept longer than it can be answered. */
function lifeOf(reply: Reply, keep: number): number {
  const questions = 'result' in reply ? reply.result['inputRequests'] : undefined;
  let life = keep;
  for (const question of isObject(questions) ? Object.values(questions) : []) {
    const { params } = question as { readonly params?: Params };
    const time = Date.parse(String(params?._meta?.[EXPIRES_AT]));
    if (!Number.isNaN(time)) life = Math.min(life, secondsUntil(time));
  }
  return life;
}
