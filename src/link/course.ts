import { AsyncLocalStorage } from 'node:async_hooks';

/** One for all of Valise: until Node 24, each storage in use costs every promise of the process something. */
const storage = new AsyncLocalStorage<readonly unknown[]>();
let places = 0;

/**
 * A value that goes along with an asynchronous course, as an `AsyncLocalStorage` has it.
 *
 * @example
 * ```ts
 * const user = new Course<string>();
 * await user.run('ada', async () => user.current); // 'ada'
 * ```
 */
export class Course<Value> {
  readonly #place = places++;

  /** Runs `work` with `value` along its course, or with none; the values of others stay. */
  run<Args extends unknown[], Result>(
    value: Value | undefined,
    work: (...args: Args) => Result,
    ...args: Args
  ): Result {
    const values: unknown[] = storage.getStore()?.slice() ?? new Array(places);
    values[this.#place] = value;
    return storage.run(values, work, ...args);
  }

  /** The value of the present course. */
  get current(): Value | undefined {
    return storage.getStore()?.[this.#place] as Value | undefined;
  }
}
