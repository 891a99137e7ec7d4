import type { Exchange } from './exchange.ts';

let places = 0;

/**
 * What a part keeps with each exchange. It is on the exchange itself: weak maps of what lives for one request keep the
 * collector busy. Made once for a module, not for each Valise: an exchange belongs to one only.
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
