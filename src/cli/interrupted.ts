const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Waits for something that holds what others wait for, too: where a signal ends the process, `release` comes first. */
export async function unlessInterrupted<T>(work: Promise<T>, release: () => Promise<void>): Promise<T> {
  let isInterrupted = false;
  const interrupt = (signal: NodeJS.Signals): void => {
    isInterrupted = true;
    ignore();
    // Now that nobody listens, the signal does what it does to any other program.
    const die = (): void => void process.kill(process.pid, signal);
    void release().then(die, die);
  };
  const ignore = (): void => {
    for (const signal of SIGNALS) process.off(signal, interrupt);
  };
  for (const signal of SIGNALS) process.on(signal, interrupt);
  try {
    return await work;
  } catch (error) {
    // That everything was closed is no news to whoever ended it.
    if (isInterrupted) return await new Promise<never>(() => {});
    throw error;
  } finally {
    ignore();
  }
}
