/** Random numbers from a seed: the same seed gives the same numbers on every machine. */
export interface Random {
  /** An integer from 0 to below `limit`. */
  below(limit: number): number;
  /** True in `share` of all cases, a number from 0 to 1. */
  chance(share: number): boolean;
  pick<const Item>(items: readonly Item[]): Item;
}

/** `at` tells the cases of one run apart, so that each can be repeated alone. */
export function randomOf(seed: number, at = 0): Random {
  let state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(at + 1, 0x85ebca77)) | 0;
  // mulberry32
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  };
  const below = (limit: number) => Math.floor(next() * limit);
  return {
    below,
    chance: (share) => next() < share,
    pick: (items) => {
      if (items.length === 0) throw new Error('There is nothing to pick from.');
      return items[below(items.length)] as (typeof items)[number];
    },
  };
}
