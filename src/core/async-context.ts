import { AsyncLocalStorage } from 'node:async_hooks';

/** All of Valise shares one storage: until Node 24, each storage in use slows down every promise of the process. */
const storage = new AsyncLocalStorage<readonly unknown[]>();
let places = 0;

/**
 * A value in the async context, like an `AsyncLocalStorage`.
 *
 * @example
 * ```ts
 * const user = new AsyncVariable<string>();
 * await user.run('ada', async () => user.current); // 'ada'
 * ```
 */
export class AsyncVariable<Value> {
  readonly #place = places++;

  /** Runs `work` with `value` (or undefined) in its async context. The values of other instances stay. */
  run<Args extends unknown[], Result>(
    value: Value | undefined,
    work: (...args: Args) => Result,
    ...args: Args
  ): Result {
    const values: unknown[] = storage.getStore()?.slice() ?? new Array(places);
    values[this.#place] = value;
    return storage.run(values, work, ...args);
  }

  /** The value in the current async context. */
  get current(): Value | undefined {
    return storage.getStore()?.[this.#place] as Value | undefined;
  }
}
