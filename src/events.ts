/** A listener of {@link Events}. */
export type Listener<T> = (event: T) => void;

/**
 * A small typed event source. Valise tells what it did through events and never logs by itself.
 *
 * @example
 * ```ts
 * const events = new Events<{ evicted: { key: string } }>();
 * const off = events.on('evicted', ({ key }) => console.log(key));
 * off();
 * ```
 */
export class Events<Kinds extends object> {
  readonly #listeners = new Map<keyof Kinds, Set<Listener<never>>>();

  /** Adds a listener; the function returned takes it off again. */
  on<Name extends keyof Kinds>(name: Name, listener: Listener<Kinds[Name]>): () => void {
    let set = this.#listeners.get(name);
    if (!set) this.#listeners.set(name, (set = new Set()));
    set.add(listener as Listener<never>);
    return () => void set.delete(listener as Listener<never>);
  }

  /** Tells all listeners of `name`. A listener that throws does not keep the others from hearing. */
  emit<Name extends keyof Kinds>(name: Name, event: Kinds[Name]): void {
    const set = this.#listeners.get(name);
    if (!set) return;
    for (const listener of set) {
      try {
        (listener as Listener<Kinds[Name]>)(event);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }

  /** True where somebody listens, so that an event that is costly to build need not be. */
  has(name: keyof Kinds): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0;
  }
}
