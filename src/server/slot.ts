import type { Exchange } from './exchange.ts';

let places = 0;

/**
 * A value that a middleware stores with each exchange.
 *
 * It is stored on the exchange itself, because weak maps of short-lived objects burden the garbage collector. Create a slot
 * once per module, not per Valise, since an exchange belongs to only one.
 */
export class Slot<Value> {
  readonly #place = places++;

  get({ kept }: Exchange): Value | undefined {
    return kept?.[this.#place] as Value | undefined;
  }

  set(exchange: Exchange, value: Value | undefined): void {
    if (value === undefined && !exchange.kept) return;
    exchange.kept ??= [];
    exchange.kept[this.#place] = value;
  }
}
