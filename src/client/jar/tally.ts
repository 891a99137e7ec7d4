import type { Bag } from './bag.ts';

interface Site {
  count: number;
  readonly bags: Set<Bag>;
}

/** Counts what is in the jar, in all and by owner, so that a full jar knows at once who has to give. */
export class Tally {
  readonly #sites = new Map<string, Site>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /** A bag has grown or shrunk. */
  resized(bag: Bag, by: number): void {
    if (by === 0) return;
    this.#total += by;
    let site = this.#sites.get(bag.site);
    if (!site) this.#sites.set(bag.site, (site = { count: 0, bags: new Set() }));
    site.count += by;
    if (bag.items.size > 0) site.bags.add(bag);
    else site.bags.delete(bag);
    if (site.bags.size === 0) this.#sites.delete(bag.site);
  }

  /**
   * Whose turn it is to lose a piece of state: of the owners who hold the most, the one whose oldest piece has been
   * of no use the longest. So an owner with a thousand servers cannot push out anybody who keeps little.
   */
  oldest(): { readonly bag: Bag; readonly name: string } | undefined {
    let most = 0;
    for (const { count } of this.#sites.values()) most = Math.max(most, count);
    let found:
      | { readonly bag: Bag; readonly name: string; readonly used: number; readonly set: number }
      | undefined;
    for (const { count, bags } of this.#sites.values()) {
      if (count < most) continue;
      for (const bag of bags) {
        const one = bag.stalest();
        if (!one || (found && (one.used > found.used || (one.used === found.used && one.set >= found.set))))
          continue;
        found = { bag, ...one };
      }
    }
    return found;
  }
}
