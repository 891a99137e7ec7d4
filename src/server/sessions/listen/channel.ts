import { isObject, type Json } from '../../../json.ts';
import { sha256 } from '../../../sha256.ts';
import { memoryBus, openBus } from '../../../store/index.ts';
import type { Bus } from '../../../store/types.ts';
import type { Params } from '../../../wire/index.ts';

/** A message between instances about a session, or about what belongs to none. */
export type Signal =
  /** A notification, with its position in the log. */
  | { readonly gen: string; readonly n: number; readonly method: string; readonly params?: Params }
  /** The session has ended. */
  | { readonly end: true };

/** Options of a `Channel`. */
export interface ChannelOptions {
  /** The server's name. All its instances share the channel. */
  readonly name: string;
  /** A bus, or its URL. Without it, signals stay in this process. */
  readonly bus: Bus | string | undefined;
}

/** Carries signals between instances, over a bus that is opened on first use. */
export class Channel {
  /** Whether other instances receive the signals. */
  readonly isShared: boolean;
  readonly #prefix: string;
  readonly #given: Bus | string | undefined;
  #opened: Promise<Bus> | undefined;

  constructor({ name, bus }: ChannelOptions) {
    this.isShared = bus !== undefined;
    this.#prefix = `valise/${sha256(name).slice(0, 16)}`;
    this.#given = bus;
  }

  async publish(scope: string, signal: Signal): Promise<void> {
    await (await this.#bus()).publish(this.#topic(scope), signal as unknown as Json);
  }

  /** Resolves once signals will arrive. The returned function unsubscribes; errors of the bus are ignored. */
  async subscribe(scope: string, listener: (signal: Signal) => void): Promise<() => Promise<void>> {
    const off = await (await this.#bus()).subscribe(this.#topic(scope), (message) => {
      if (isObject(message)) listener(message as unknown as Signal);
    });
    return async () => {
      // Signals that still arrive have no effect.
      await off().catch(() => undefined);
    };
  }

  async close(): Promise<void> {
    // A bus that was passed in is closed by its owner.
    if (typeof this.#given !== 'object') await (await this.#opened)?.close();
  }

  #bus(): Promise<Bus> {
    if (typeof this.#given === 'object') return Promise.resolve(this.#given);
    this.#opened ??= (this.#given === undefined ? Promise.resolve(memoryBus()) : openBus(this.#given)).catch(
      (error: unknown) => {
        this.#opened = undefined;
        throw error;
      },
    );
    return this.#opened;
  }

  #topic(scope: string): string {
    return `${this.#prefix}/${scope === '' ? 'global' : sha256(scope)}`;
  }
}

/** Returns the URL of a bus at the same place as the store, if that store has one. */
export function busBeside(storeUrl: string | undefined): string | undefined {
  return storeUrl !== undefined && /^(rediss?|postgres(ql)?):/i.test(storeUrl) ? storeUrl : undefined;
}
