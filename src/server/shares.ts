/** Which limit was reached: the caller's own, or that of all together. */
export type Exceeded = 'caller' | 'total';

/** How much is given out at the same time. */
export interface SharesOptions {
  /** To all together. */
  readonly max: number;
  /** To one caller. */
  readonly perCaller: number;
}

/** A caller's part of a total, where nobody says otherwise: a tenth, and at least 100. */
export function shareOf(total: number): number {
  return Math.min(total, Math.max(100, Math.floor(total / 10)));
}

/** Counts what callers hold in this process. Counting and taking is one step, so that no two requests take the last place. */
export class Shares {
  readonly #options: SharesOptions;
  readonly #held = new Map<string, number>();
  #total = 0;

  constructor(options: SharesOptions) {
    this.#options = options;
  }

  /** Takes a place; returns what gives it back, or which limit is reached. Callers that nothing tells apart have no share of their own. */
  take(caller: string | undefined): (() => void) | Exceeded {
    const { max, perCaller } = this.#options;
    if (this.#total >= max) return 'total';
    const held = (caller === undefined ? undefined : this.#held.get(caller)) ?? 0;
    if (caller !== undefined && held >= perCaller) return 'caller';
    this.#total++;
    if (caller !== undefined) this.#held.set(caller, held + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#total--;
      const left = (this.#held.get(caller ?? '') ?? 0) - 1;
      if (caller === undefined) return;
      if (left > 0) this.#held.set(caller, left);
      else this.#held.delete(caller);
    };
  }
}
