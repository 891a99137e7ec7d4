import { isObject, type Json } from '../../core/json.ts';
import { canonicalJson } from '../../seal/canonical.ts';
import { type OpenOptions, SealError, type SealOptions } from '../../seal/index.ts';
import { isUsable } from '../../wire/extension-version.ts';
import { notDone } from '../fault.ts';
import type { Caller } from '../quota.ts';
import { type FlowContext, type StateCodec, stateText } from './codec.ts';
import type { Continuation } from './continuation.ts';
import type { FlowCounters } from './counters.ts';
import { FlowError } from './errors.ts';
import type { FlowRecords } from './records.ts';
import type { FlowMode } from './types.ts';

/** Options for keeping a continuation. */
export interface KeepOptions extends SealOptions {
  readonly ttl: number;
  readonly mode: FlowMode;
  /** The longest text that may travel, as configured by the author. */
  readonly budget: number;
  /** The longest text that the carrier allows, whatever the author configured. */
  readonly most?: number;
  /** Whether an answer that sends nothing back can be matched by the id of its question. */
  readonly findable: boolean;
  /** The caller whose quota the continuation counts toward. */
  readonly caller: Caller;
  /** The tool that asks, for the operator. It is recorded only in the store. */
  readonly tool?: string | undefined;
}

/** The reference that travels if the continuation is in the store. */
interface Reference {
  readonly r: string;
  readonly n: number;
}

/** How long after its end a round is still accepted, in seconds. Seals have the same leeway, since clocks differ. */
const LEEWAY = 60;

/** How much longer than its text a stored continuation lives, in seconds. */
const SLACK = 2 * LEEWAY;

/** The keys of continuations in the store start with this. */
export const FLOW_CONTEXTS = 'rounds/kept/';

/** A continuation in the store. */
interface Stored {
  readonly context: Continuation;
  readonly mode: FlowMode;
  readonly tool?: string | undefined;
}

/** Modes in which the store serves a client whose text came back damaged. */
const FALLS_BACK: readonly FlowMode[] = ['dual', 'carried-first'];

/** Keeps continuations between rounds: in the client, in the store, or in both. */
export class ContinuationStore {
  readonly codec: StateCodec;
  readonly #records: FlowRecords;
  readonly #counters: FlowCounters;

  constructor(codec: StateCodec, records: FlowRecords, counters: FlowCounters) {
    this.codec = codec;
    this.#records = records;
    this.#counters = counters;
  }

  get hasStore(): boolean {
    return this.#records.isShared;
  }

  /** Keeps a continuation and returns the state that travels through the client. */
  async keep(continuation: Continuation, options: KeepOptions): Promise<FlowContext> {
    const { mode, budget, most = budget, findable, caller: _, tool: __, ...seal } = options;
    if (mode !== 'carried' && !this.hasStore) throw noStore(mode);
    const value = continuation as unknown as Json;
    const state =
      mode === 'stored'
        ? undefined
        : this.codec.seal(mode === 'dual' ? { ...(value as object), d: 1 } : value, seal);
    const room = Math.min(budget, most);
    const length = state === undefined ? 0 : stateText(state).length;
    if (length > room && !this.hasStore) throw tooLarge(continuation, length, budget, most);
    this.#counters.add('asked');
    if (state === undefined || length > room) {
      const { f: r, n } = continuation;
      const reference = this.codec.seal({ r, n } satisfies Reference, seal);
      await this.#put(continuation, options);
      return reference;
    }
    if (mode === 'dual' || (mode === 'carried-first' && findable)) await this.#put(continuation, options);
    return state;
  }

  /** Returns the continuation of a state that came back. Throws `SealError` if the state is not genuine. */
  async find(state: unknown, options: OpenOptions): Promise<Continuation> {
    const found = this.codec.open(state, options) as unknown as
      | (Continuation & { readonly d?: 1 })
      | Reference;
    if ('r' in found) {
      const stored = await this.recall(found.r, found.n);
      if (!stored) throw new SealError(this.hasStore ? 'expired' : 'malformed');
      return stored;
    }
    if (found.v !== undefined) checkVersion(found.v);
    return found.d ? this.#compare(found) : found;
  }

  /** Returns the continuation of a round whose text did not come back, or undefined if nothing is stored. */
  async recall(flow: string, round: number): Promise<Continuation | undefined> {
    return (await this.#stored(flow, round))?.context;
  }

  /** Returns the continuation of a round whose text came back damaged, or undefined if the flow's mode does not allow it. */
  async replace(flow: string, round: number): Promise<Continuation | undefined> {
    const stored = await this.#stored(flow, round);
    return stored && FALLS_BACK.includes(stored.mode) ? stored.context : undefined;
  }

  async #stored(flow: string, round: number): Promise<Stored | undefined> {
    const value = this.hasStore ? (await this.#records.get(FLOW_CONTEXTS + flow))?.value : undefined;
    if (!isObject(value)) return undefined;
    const stored = value as unknown as Stored;
    const { n, e, v } = stored.context;
    if (n !== round || Date.now() / 1000 >= e + LEEWAY) return undefined;
    if (v !== undefined) checkVersion(v);
    return stored;
  }

  async #put(context: Continuation, { ttl, caller, mode, tool }: KeepOptions): Promise<void> {
    const stored: Stored = { context, mode, ...(tool !== undefined && { tool }) };
    // Nothing has been done until the question is asked.
    await this.#records.put(FLOW_CONTEXTS + context.f, stored, { ttl: ttl + SLACK, caller }).catch(notDone);
  }

  /** Compares what was carried with what is stored, which is authoritative. This is the first step toward carrying alone. */
  async #compare({ d: _, ...carried }: Continuation & { readonly d?: 1 }): Promise<Continuation> {
    const stored = await this.recall(carried.f, carried.n);
    if (!stored) this.#counters.add('missing');
    else this.#counters.add(canonicalJson(stored) === canonicalJson(carried) ? 'same' : 'different');
    return stored ?? carried;
  }
}

/** Thrown if a continuation is of a flow that began with a version of the extension that this release does not support. */
export class OtherExtensionVersion extends SealError {
  readonly version: string;

  constructor(version: string) {
    super('malformed');
    this.version = version;
  }
}

function checkVersion(version: string): void {
  if (!isUsable('rounds', version)) throw new OtherExtensionVersion(version);
}

function noStore(mode: FlowMode): FlowError {
  return new FlowError('no-store', `Flows are to be kept as "${mode}", and there is no store.`, {
    next: "Give createValise a store, or set the mode to 'carried'.",
  });
}

function tooLarge({ o }: Continuation, size: number, budget: number, most: number): FlowError {
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
