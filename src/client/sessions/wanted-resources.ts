interface Wish {
  readonly resources: readonly string[];
  resolve(): void;
  reject(error: unknown): void;
}

/** The resources that a stream listens for: those the server has accepted, and those that are newly requested. */
export class WantedResources {
  #granted: ReadonlySet<string>;
  /** The resources that the current request names, including new ones. */
  #named: ReadonlySet<string>;
  #asked: readonly Wish[] = [];
  #open: Wish[] = [];
  /** Whether the server has rejected several requests at once. Each is then sent on its own. */
  #singly = false;

  constructor(resources: readonly string[]) {
    this.#granted = new Set(resources);
    this.#named = this.#granted;
  }

  /** Requests more resources. Returns undefined if the server has already accepted all of them. */
  add(resources: readonly string[]): Promise<void> | undefined {
    if (resources.every((uri) => this.#granted.has(uri))) return undefined;
    return new Promise((resolve, reject) => this.#open.push({ resources, resolve, reject }));
  }

  /** Returns the resources for the next request to name. */
  name(): ReadonlySet<string> {
    this.#asked = this.#singly ? this.#open.slice(0, 1) : [...this.#open];
    if (this.#asked.length === 0) this.#named = this.#granted;
    else this.#named = new Set([...this.#granted, ...this.#asked.flatMap(({ resources }) => resources)]);
    return this.#named;
  }

  /** Marks the named resources as accepted. Returns true if there are more to request. */
  granted(): boolean {
    this.#granted = this.#named;
    for (const wish of this.#asked) wish.resolve();
    return this.#without(this.#asked);
  }

  /**
   * Handles the rejection of the named resources. Returns false if none were new, so that the server rejects the stream itself.
   */
  refused(error: unknown): boolean {
    if (this.#asked.length === 0) return false;
    if (this.#asked.length > 1) this.#singly = true;
    else {
      this.#asked[0]?.reject(error);
      this.#without(this.#asked);
    }
    return true;
  }

  /** Rejects all requests that are still open. */
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
