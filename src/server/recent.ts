/**
 * Remembers what was set lately: at least `most` entries, and at most twice as many. In two generations: when the newer
 * one is full it becomes the older one, and what was there before is forgotten.
 */
export class Recent<Value> {
  readonly #most: number;
  #newer = new Map<string, Value>();
  #older: ReadonlyMap<string, Value> = new Map();

  constructor(most: number) {
    this.#most = most;
  }

  get(key: string): Value | undefined {
    return this.#newer.get(key) ?? this.#older.get(key);
  }

  set(key: string, value: Value): void {
    if (this.#newer.size >= this.#most) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    this.#newer.set(key, value);
  }
}
