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
  /** Returns the server's time in milliseconds since 1970. */
  now(): Promise<number>;
}

/** How long a reading of a server's clock is used, in milliseconds. */
const READING_AGE = 600_000;

/** Returns a server's clock that is read once in ten minutes. Jumps of the local clock do not matter. */
export function serverClock(read: () => Promise<number>): ServerClock {
  let reading: Promise<{ readonly offset: number; readonly at: number }> | undefined;
  const learn = async () => {
    try {
      const time = await read();
      const at = clock.elapsed();
      return { offset: time - at, at };
    } catch (error) {
      reading = undefined;
      throw error;
    }
  };
  return {
    async now() {
      let latest = await (reading ??= learn());
      if (clock.elapsed() - latest.at > READING_AGE) latest = await (reading = learn());
      return clock.elapsed() + latest.offset;
    },
  };
}
