/**
 * Remembers recently set entries: at least `most`, and at most twice as many.
 *
 * Entries are in two generations. When the newer one is full it becomes the older one, and the previous older one is forgotten.
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
