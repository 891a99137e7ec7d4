import { clock } from './clock.ts';

/** How {@link withTimeout} waits. */
export interface TimeoutOptions {
  /** Lets the process end although the time is not up. */
  readonly background?: boolean;
}

/**
 * Settles like `work`. If that takes longer than `ms` milliseconds, settles with what `late` returns or throws; the work
 * itself goes on, and what becomes of it is ignored.
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
