import type { Bag } from './bag.ts';

interface Site {
  count: number;
  readonly bags: Set<Bag>;
}

interface Oldest {
  readonly bag: Bag;
  readonly name: string;
  readonly used: number;
  readonly set: number;
}

/** Counts the entries in the jar, and decides whose entry to evict when it is full. */
export class Tally {
  readonly #bags: () => Iterable<Bag>;
  /** The sites by owner, created when the jar is full for the first time. */
  #sites: Map<string, Site> | undefined;
  #total = 0;

  /** `bags` returns all bags that count. */
  constructor(bags: () => Iterable<Bag>) {
    this.#bags = bags;
  }

  get total(): number {
    return this.#total;
  }

  /** Records that a bag has grown or shrunk. */
  resized(bag: Bag, by: number): void {
    if (by === 0) return;
    this.#total += by;
    if (this.#sites) count(this.#sites, bag, by);
  }

  /**
   * Returns the entry to evict next: the least recently used entry among the owners with the most entries. An owner with a
   * thousand servers therefore cannot evict the entries of owners that keep few.
   */
  oldest(): Oldest | undefined {
    const sites = (this.#sites ??= this.#bySite());
    let most = 0;
    for (const site of sites.values()) most = Math.max(most, site.count);
    let found: Oldest | undefined;
    for (const site of sites.values()) {
      if (site.count < most) continue;
      for (const bag of site.bags) {
        const one = bag.stalest();
        if (one && (!found || one.used < found.used || (one.used === found.used && one.set < found.set)))
          found = { bag, ...one };
      }
    }
    return found;
  }

  #bySite(): Map<string, Site> {
    const sites = new Map<string, Site>();
    for (const bag of this.#bags()) if (bag.items.size > 0) count(sites, bag, bag.items.size);
    return sites;
  }
}

function count(sites: Map<string, Site>, bag: Bag, by: number): void {
  let site = sites.get(bag.site);
  if (!site) sites.set(bag.site, (site = { count: 0, bags: new Set() }));
  site.count += by;
  if (bag.items.size > 0) site.bags.add(bag);
  else site.bags.delete(bag);
  if (site.bags.size === 0) sites.delete(bag.site);
}
