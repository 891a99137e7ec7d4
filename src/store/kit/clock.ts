/** The source of time and timers. */
interface Clock {
  /** Returns milliseconds since 1970. */
  now(): number;
  /** Returns milliseconds on a monotonic scale, for measuring durations. */
  elapsed(): number;
  /** Runs `task` once, after `ms` milliseconds. Returns a function that cancels it. */
  after(ms: number, task: () => void): () => void;
  /** Like `after`, but does not keep the process alive. */
  whileAlive(ms: number, task: () => void): () => void;
  /** Runs `task` every `ms` milliseconds, without keeping the process alive. Returns a function that stops it. */
  every(ms: number, task: () => void): () => void;
}

/**
 * The clock for everything that Valise stores. It reads the process clock, which `virtualClock` of `mcp-valise/testing`
 * replaces in tests.
 */
export const clock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  after(ms, task) {
    const timer = setTimeout(task, ms);
    return () => clearTimeout(timer);
  },
  whileAlive(ms, task) {
    const timer = setTimeout(task, ms).unref();
    return () => clearTimeout(timer);
  },
  every(ms, task) {
    const timer = setInterval(task, ms).unref();
    return () => clearInterval(timer);
  },
};

/** Resolves after `ms` milliseconds, or immediately when `signal` is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = (): void => {
      cancel();
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const cancel = clock.after(ms, end);
    signal?.addEventListener('abort', end, { once: true });
  });
}

/** The clock of a server. */
export interface ServerClock {
  /** Returns the server's time in milliseconds since 1970. Returns a promise only if the server has to be asked. */
  now(): number | Promise<number>;
}

/** How long a reading of a server's clock is used, in milliseconds. */
const READING_AGE = 600_000;

/** Returns a server's clock that is read once in ten minutes. Jumps of the local clock do not matter. */
export function serverClock(read: () => Promise<number>): ServerClock {
  let latest: { readonly offset: number; readonly at: number } | undefined;
  const known = (): number | undefined => {
    const now = clock.elapsed();
    return latest && now - latest.at <= READING_AGE ? now + latest.offset : undefined;
  };
  // Calls do not share the promise: on Workers, one that another request has begun may never settle.
  const ask = async (): Promise<number> => {
    const time = await read();
    latest = { offset: time - clock.elapsed(), at: clock.elapsed() };
    return time;
  };
  return { now: () => known() ?? ask() };
}

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
