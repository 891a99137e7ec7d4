const MOST = 4096;

interface Given {
  readonly seal: string;
  readonly subject: string | undefined;
}

/** The last seal that this process gave out for each session: one that comes back unaltered need not be opened to be believed. */
export class GivenSeals {
  // Two generations: when the newer one is full it becomes the older one, and what was there before is forgotten.
  #newer = new Map<string, Given>();
  #older: ReadonlyMap<string, Given> = new Map();

  add(id: string, subject: string | undefined, seal: string): void {
    if (this.#newer.size >= MOST) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    this.#newer.set(id, { seal, subject });
  }

  /** True where this seal is the last that was given for this session, and was given to this subject. */
  has(id: string, subject: string | undefined, seal: string): boolean {
    const given = this.#newer.get(id) ?? this.#older.get(id);
    return given !== undefined && given.subject === subject && given.seal === seal;
  }
}
