import type { Json } from '../../json.ts';
import type { PutOptions, Store } from '../../store/types.ts';

/** Entries that are kept without a store; the oldest go first. */
const MOST = 10_000;

/** Small entries that all instances share where there is a store; without one they are in this process: fine for one instance. */
export class Drawer {
  readonly #store: Store | undefined;
  readonly #kept = new Map<string, Json>();

  constructor(store: Store | undefined) {
    this.#store = store;
  }

  async put(name: string, value: Json, options: Pick<PutOptions, 'ttl' | 'ifAbsent'>): Promise<void> {
    if (this.#store) return void (await this.#store.put(name, value, options));
    if (options.ifAbsent && this.#kept.has(name)) return;
    this.#kept.set(name, value);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MOST && oldest !== undefined) this.#kept.delete(oldest);
  }

  async get(name: string): Promise<Json | undefined> {
    return this.#store ? (await this.#store.get(name))?.value : this.#kept.get(name);
  }
}
