import type { Exceeded, SharesOptions } from './shares.ts';

/** Spent amounts run out in so many steps of their time. */
const STEPS = 64;

/**
 * Counts what callers have had written that stays for a time and that nobody takes back: entries, or bytes. Of this process;
 * looking and spending is one step.
 */
export class Budget {
  readonly #options: SharesOptions;
  /** By the time at which it runs out, and caller. */
  readonly #spent = new Map<number, Map<string, number>>();
  readonly #ofCallers = new Map<string, number>();
  #total = 0;

  constructor(options: SharesOptions) {
    this.#options = options;
  }

  /** Spends an amount for so many seconds; says which limit that would exceed, and spends nothing then. */
  spend(caller: string | undefined, amount: number, seconds: number): Exceeded | undefined {
    const now = Date.now();
    for (const [until, callers] of this.#spent) if (until <= now) this.#over(until, callers);
    const { max, perCaller } = this.#options;
    if (this.#total + amount > max) return 'total';
    if (caller !== undefined && (this.#ofCallers.get(caller) ?? 0) + amount > perCaller) return 'caller';
    const step = Math.max(1, Math.ceil((seconds * 1000) / STEPS));
    const until = Math.ceil((now + seconds * 1000) / step) * step;
    const callers = this.#spent.get(until) ?? new Map<string, number>();
    this.#spent.set(until, callers);
    this.#add(callers, caller ?? '', amount);
    this.#add(this.#ofCallers, caller ?? '', amount);
    this.#total += amount;
    return undefined;
  }

  #over(until: number, callers: ReadonlyMap<string, number>): void {
    this.#spent.delete(until);
    for (const [caller, amount] of callers) {
      this.#add(this.#ofCallers, caller, -amount);
      this.#total -= amount;
    }
  }

  #add(amounts: Map<string, number>, caller: string, amount: number): void {
    const sum = (amounts.get(caller) ?? 0) + amount;
    if (sum > 0) amounts.set(caller, sum);
    else amounts.delete(caller);
  }
}
