import { isObject, type Json } from '../../json.ts';
import { canonicalJson } from '../../seal/canonical.ts';
import { type OpenOptions, SealError, type SealOptions } from '../../seal/index.ts';
import { notDone } from '../fault.ts';
import type { Caller } from '../quota.ts';
import { type FlowContext, type StateCodec, stateText } from './codec.ts';
import type { RoundContext } from './context.ts';
import type { RoundCounters } from './counters.ts';
import { FlowError } from './errors.ts';
import type { FlowRecords } from './records.ts';
import type { FlowMode } from './types.ts';

/** Options for storing a context. */
export interface KeepOptions extends SealOptions {
  readonly ttl: number;
  readonly mode: FlowMode;
  /** The longest text that may travel, as configured by the author. */
  readonly budget: number;
  /** The longest text that the carrier allows, whatever the author configured. */
  readonly most?: number;
  /** Whether an answer that sends nothing back can be matched by the id of its question. */
  readonly findable: boolean;
  /** The caller whose quota the context counts toward. */
  readonly caller: Caller;
}

/** Stores contexts between rounds: in the client, in the store, or in both. */
export interface Keeper {
  /** Stores a context and returns the state that travels through the client. */
  keep(context: RoundContext, options: KeepOptions): FlowContext | Promise<FlowContext>;
  /** Returns the context of a state that came back. Throws `SealError` if the state is not genuine. */
  find(state: unknown, options: OpenOptions): RoundContext | Promise<RoundContext>;
  /** Returns the context of a round whose text did not come back, or undefined if nothing is stored. */
  recall(flow: string, round: number): Promise<RoundContext | undefined>;
  /** Returns the context of a round whose text came back damaged, or undefined if the flow's mode does not allow it. */
  replace(flow: string, round: number): Promise<RoundContext | undefined>;
  readonly hasStore: boolean;
}

/** The reference that travels if the context is in the store. */
interface Reference {
  readonly r: string;
  readonly n: number;
}

/** How long after its end a round is still accepted, in seconds. Seals have the same leeway, since clocks differ. */
const LEEWAY = 60;

/** How much longer than its text a stored context lives, in seconds. */
const SLACK = 2 * LEEWAY;

/** A context in the store. */
interface Kept {
  readonly context: RoundContext;
  readonly mode: FlowMode;
}

/** Modes in which the store serves a client whose text came back damaged. */
const FALLS_BACK: readonly FlowMode[] = ['dual', 'carried-first'];

export function createKeeper(codec: StateCodec, records: FlowRecords, counters: RoundCounters): Keeper {
  const hasStore = records.isShared;
  const nameOf = (flow: string): string => `rounds/kept/${flow}`;

  const find = async (flow: string, round: number): Promise<Kept | undefined> => {
    const kept = hasStore ? (await records.get(nameOf(flow)))?.value : undefined;
    if (!isObject(kept)) return undefined;
    const { context } = kept as unknown as Kept;
    if (context.n !== round || Date.now() / 1000 >= context.e + LEEWAY) return undefined;
    return kept as unknown as Kept;
  };

  const recall = async (flow: string, round: number): Promise<RoundContext | undefined> =>
    (await find(flow, round))?.context;

  const put = async (
    context: RoundContext,
    { ttl, caller, mode }: Pick<KeepOptions, 'ttl' | 'caller' | 'mode'>,
    state: FlowContext,
  ): Promise<FlowContext> => {
    const kept: Kept = { context, mode };
    // Nothing has been done until the question is asked.
    await records.put(nameOf(context.f), kept, { ttl: ttl + SLACK, caller }).catch(notDone);
    return state;
  };

  /** Compares the carried context with the stored one, which is authoritative. This is the first step toward carrying alone. */
  const compared = async (carried: RoundContext): Promise<RoundContext> => {
    const { d: _, ...own } = carried as RoundContext & { d?: 1 };
    const kept = await recall(own.f, own.n);
    if (!kept) counters.add('missing');
    else counters.add(canonicalJson(kept) === canonicalJson(own) ? 'same' : 'different');
    return kept ?? own;
  };

  return {
    hasStore,

    keep(context, options) {
      const { mode, budget, most = budget, findable, caller: _, ...seal } = options;
      const value = context as unknown as Json;
      if (mode !== 'carried' && !hasStore) throw noStore(mode);
      const name = (): FlowContext => codec.seal({ r: context.f, n: context.n } satisfies Reference, seal);
      const state =
        mode === 'stored'
          ? undefined
          : codec.seal(mode === 'dual' ? { ...(value as object), d: 1 } : value, seal);
      const room = Math.min(budget, most);
      const length = state === undefined ? 0 : stateText(state).length;
      if (length > room && !hasStore) throw tooLarge(context, length, budget, most);
      counters.add('asked');
      if (state === undefined || length > room) return put(context, options, name());
      return mode === 'dual' || (mode === 'carried-first' && findable) ? put(context, options, state) : state;
    },

    find(state, options) {
      const found = codec.open(state, options) as unknown as (RoundContext & { readonly d?: 1 }) | Reference;
      if ('r' in found) {
        return recall(found.r, found.n).then((context) => {
          if (!context) throw new SealError(hasStore ? 'expired' : 'malformed');
          return context;
        });
      }
      return found.d ? compared(found) : found;
    },

    recall,

    async replace(flow, round) {
      const kept = await find(flow, round);
      return kept && FALLS_BACK.includes(kept.mode) ? kept.context : undefined;
    },
  };
}

function noStore(mode: FlowMode): FlowError {
  return new FlowError('no-store', `Rounds are to be kept as "${mode}", and there is no store.`, {
    next: "Give createValise a store, or set the mode to 'carried'.",
  });
}

function tooLarge({ o }: RoundContext, size: number, budget: number, most: number): FlowError {
  // The length of the call within the text, which is base64.
  const call = o ? Math.round((Buffer.byteLength(JSON.stringify(o)) * 4) / 3) : 0;
  const share =
    call === 0 ? '' : `, about ${call} of them the call itself with the state that its client carries`;
  const steps = [
    'Return less from flow.once() and ask for less in one flow',
    ...(call === 0 ? [] : ['keep less in the state of the client']),
    'give createValise a store (the rest stays there)',
    ...(budget <= most ? ['raise the budget'] : []),
  ];
  return new FlowError(
    'too-large',
    `What this flow has to remember is ${size} bytes long${share}, and no more than ${Math.min(budget, most)} may travel.`,
    { next: `${steps.slice(0, -1).join(', ')}, or ${steps.at(-1)}.` },
  );
}
