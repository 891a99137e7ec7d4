/** What a server's rounds have come to so far. */
export interface RoundCounts {
  /** Rounds that were sent to clients. */
  readonly asked: number;
  /** Answers that were taken. */
  readonly answered: number;
  /** Contexts that were refused: altered, too late, of another call or principal, or used before. */
  readonly refused: number;
  /**
   * In `dual`: contexts that came back as they were kept, that did not, and that the store no longer had. In
   * `carried-first`, damaged ones count as different too.
   */
  readonly same: number;
  readonly different: number;
  readonly missing: number;
  /** Answers without their context: the client does not echo. */
  readonly notEchoed: number;
  /** Of these, the ones that were served from the store. */
  readonly recalled: number;
}

/** Counts what happens to rounds. */
export class RoundCounters {
  readonly #counts: { -readonly [Name in keyof RoundCounts]: number } = {
    asked: 0,
    answered: 0,
    refused: 0,
    same: 0,
    different: 0,
    missing: 0,
    notEchoed: 0,
    recalled: 0,
  };

  add(name: keyof RoundCounts): void {
    this.#counts[name]++;
  }

  /** The counts as they are now. */
  read(): RoundCounts {
    return { ...this.#counts };
  }
}
