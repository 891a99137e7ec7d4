interface Wish {
  readonly resources: readonly string[];
  resolve(): void;
  reject(error: unknown): void;
}

/** The resources that a stream listens for: what the server has let in, and what somebody asks for besides. */
export class WantedResources {
  #granted: ReadonlySet<string>;
  /** Those of the present request, and the new ones among them. */
  #named: ReadonlySet<string>;
  #asked: readonly Wish[] = [];
  #open: Wish[] = [];
  /** True where the server has refused several at once: then each is asked for by itself. */
  #singly = false;

  constructor(resources: readonly string[]) {
    this.#granted = new Set(resources);
    this.#named = this.#granted;
  }

  /** WantedResources for more; undefined where all of it is let in already. */
  add(resources: readonly string[]): Promise<void> | undefined {
    if (resources.every((uri) => this.#granted.has(uri))) return undefined;
    return new Promise((resolve, reject) => this.#open.push({ resources, resolve, reject }));
  }

  /** What the next request names. */
  name(): ReadonlySet<string> {
    this.#asked = this.#singly ? this.#open.slice(0, 1) : [...this.#open];
    if (this.#asked.length === 0) this.#named = this.#granted;
    else this.#named = new Set([...this.#granted, ...this.#asked.flatMap(({ resources }) => resources)]);
    return this.#named;
  }

  /** The server lets in what was named; true where there is more to ask for. */
  granted(): boolean {
    this.#granted = this.#named;
    for (const wish of this.#asked) wish.resolve();
    return this.#without(this.#asked);
  }

  /** The server refuses what was named; false where nothing was wished for, so that it refuses to be listened to. */
  refused(error: unknown): boolean {
    if (this.#asked.length === 0) return false;
    if (this.#asked.length > 1) this.#singly = true;
    else {
      this.#asked[0]?.reject(error);
      this.#without(this.#asked);
    }
    return true;
  }

  /** Nothing more will be let in. */
  end(error: unknown): void {
    for (const { reject } of this.#open.splice(0)) reject(error);
  }

  #without(over: readonly Wish[]): boolean {
    this.#open = this.#open.filter((wish) => !over.includes(wish));
    this.#asked = [];
    if (this.#open.length === 0) this.#singly = false;
    return this.#open.length > 0;
  }
}
