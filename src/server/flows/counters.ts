/** Counts of what has happened to a server's rounds so far. */
export interface FlowCounts {
  /** Rounds that were sent to clients. */
  readonly asked: number;
  /** Answers that were accepted. */
  readonly answered: number;
  /** Contexts that were refused: altered, too late, of another call or principal, or already used. */
  readonly refused: number;
  /**
   * In `dual`: contexts that came back as they were stored, that did not, and that the store no longer had.
   *
   * In `carried-first`, damaged contexts count as different too.
   */
  readonly same: number;
  readonly different: number;
  readonly missing: number;
  /** Answers without their context: the client does not echo it. */
  readonly notEchoed: number;
  /** The number of these answers that were served from the store. */
  readonly recalled: number;
}

/** Counts what happens to rounds. */
export class FlowCounters {
  readonly #counts: { -readonly [Name in keyof FlowCounts]: number } = {
    asked: 0,
    answered: 0,
    refused: 0,
    same: 0,
    different: 0,
    missing: 0,
    notEchoed: 0,
    recalled: 0,
  };

  add(name: keyof FlowCounts): void {
    this.#counts[name]++;
  }

  /** Returns a snapshot of the counts. */
  read(): FlowCounts {
    return { ...this.#counts };
  }
}
