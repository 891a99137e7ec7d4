import { clock } from './clock.ts';

/** Options of {@link withTimeout}. */
export interface TimeoutOptions {
  /** Lets the process exit before the time is up. */
  readonly background?: boolean;
}

/**
 * Settles like `work`. If that takes longer than `ms` milliseconds, settles with the result or error of `late`. The
 * work itself continues, and its outcome is ignored.
 */
export function withTimeout<T>(
  work: Promise<T>,
  ms: number,
  late: () => T,
  { background = false }: TimeoutOptions = {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    const expire = (): void => {
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    };
    const cancel = background ? clock.whileAlive(ms, expire) : clock.after(ms, expire);
    work.then(
      (value) => {
        cancel();
        resolve(value);
      },
      (error: unknown) => {
        cancel();
        reject(error);
      },
    );
  });
}
