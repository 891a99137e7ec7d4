import { isObject, type Json } from '../../json.ts';
import { canonicalJson } from '../../seal/canonical.ts';
import { type OpenOptions, SealError, type SealOptions } from '../../seal/index.ts';
import type { Store } from '../../store/types.ts';
import type { RoundCodec } from './codec.ts';
import type { RoundContext } from './context.ts';
import type { RoundCounters } from './counters.ts';
import { FlowError } from './errors.ts';
import type { RoundMode } from './types.ts';

/** How a context is kept. */
export interface KeepOptions extends SealOptions {
  readonly ttl: number;
  readonly mode: RoundMode;
  /** Longest text that may travel, as the author has it. */
  readonly budget: number;
  /** Longest text that the way takes, whatever the author says. */
  readonly most?: number;
  /** True where an answer that brings nothing back can be told by the id of its question. */
  readonly findable: boolean;
}

/** Keeps contexts between rounds: in the client's hands, in the store, or in both. */
export interface Keeper {
  /** The text that travels. */
  keep(context: RoundContext, options: KeepOptions): string | Promise<string>;
  /** The context of a text that came back; throws `SealError` where it is not genuine. */
  find(text: string, options: OpenOptions): RoundContext | Promise<RoundContext>;
  /** The context of a round whose text did not come back; undefined where nothing was kept. */
  recall(flow: string, round: number): Promise<RoundContext | undefined>;
  /** Ends the flow: nothing needs to be kept any more. */
  drop(flow: string): Promise<void>;
  readonly hasStore: boolean;
}

/** What stands in for a context that is in the store. */
interface Reference {
  readonly r: string;
  readonly n: number;
}

/** How long after its time a round is still taken, in seconds, as seals have it: clocks differ. */
const LEEWAY = 60;

/** How much longer than its text a kept context lives, in seconds. */
const SLACK = 2 * LEEWAY;

export function createKeeper(codec: RoundCodec, store: Store | undefined, counters: RoundCounters): Keeper {
  const nameOf = (flow: string): string => `rounds/kept/${flow}`;

  const recall = async (flow: string, round: number): Promise<RoundContext | undefined> => {
    const kept = (await store?.get(nameOf(flow)))?.value as unknown as RoundContext | undefined;
    if (!isObject(kept) || kept.n !== round || Date.now() / 1000 >= kept.e + LEEWAY) return undefined;
    return kept;
  };

  const put = async (context: RoundContext, ttl: number, text: string): Promise<string> => {
    await store?.put(nameOf(context.f), context as unknown as Json, { ttl: ttl + SLACK });
    return text;
  };

  /** The store counts, what travelled is compared with it: the first step on the way to carrying alone. */
  const compared = async (carried: RoundContext): Promise<RoundContext> => {
    const { d: _, ...own } = carried as RoundContext & { d?: 1 };
    const kept = await recall(own.f, own.n);
    if (!kept) counters.add('missing');
    else counters.add(canonicalJson(kept) === canonicalJson(own) ? 'same' : 'different');
    return kept ?? own;
  };

  return {
    hasStore: store !== undefined,

    keep(context, { mode, budget, most = budget, findable, ...seal }) {
      const value = context as unknown as Json;
      if (mode !== 'carried' && !store) throw noStore(mode);
      const name = (): string => codec.seal({ r: context.f, n: context.n } satisfies Reference, seal);
      const text =
        mode === 'stored'
          ? undefined
          : codec.seal(mode === 'dual' ? { ...(value as object), d: 1 } : value, seal);
      const room = Math.min(budget, most);
      if (text !== undefined && text.length > room && !store)
        throw tooLarge(context, text.length, budget, most);
      counters.add('asked');
      if (text === undefined || text.length > room) return put(context, seal.ttl, name());
      return mode === 'dual' || (mode === 'carried-first' && findable) ? put(context, seal.ttl, text) : text;
    },

    find(text, options) {
      const found = codec.open(text, options) as unknown as (RoundContext & { readonly d?: 1 }) | Reference;
      if ('r' in found) {
        return recall(found.r, found.n).then((context) => {
          if (!context) throw new SealError(store ? 'expired' : 'malformed');
          return context;
        });
      }
      return found.d ? compared(found) : found;
    },

    recall,
    drop: async (flow) => void (await store?.delete(nameOf(flow))),
  };
}

function noStore(mode: RoundMode): FlowError {
  return new FlowError('no-store', `Rounds are to be kept as "${mode}", and there is no store.`, {
    next: "Give createValise a store, or set the mode to 'carried'.",
  });
}

function tooLarge({ o }: RoundContext, size: number, budget: number, most: number): FlowError {
  // As long as it is in the text, which is base64.
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
    'journal-too-large',
    `What this flow has to remember is ${size} bytes long${share}, and no more than ${Math.min(budget, most)} may travel.`,
    { next: `${steps.slice(0, -1).join(', ')}, or ${steps.at(-1)}.` },
  );
}
