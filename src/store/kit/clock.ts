/** Where the time comes from, and what waits for it. */
interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Milliseconds on a scale that never jumps: for measuring, not for telling the time. */
  elapsed(): number;
  /** Runs `task` once, after `ms` milliseconds. The function returned cancels it. */
  after(ms: number, task: () => void): () => void;
  /** As `after`, without keeping the process alive for it. */
  whileAlive(ms: number, task: () => void): () => void;
  /** Runs `task` every `ms` milliseconds, without keeping the process alive for it. The function returned ends it. */
  every(ms: number, task: () => void): () => void;
}

/** The clock of all that Valise stores. It reads the process's own, which `virtualClock` of `mcp-valise/testing` replaces in tests. */
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

/** Resolves after `ms` milliseconds, or at once when `signal` is aborted. */
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
