/** What ends a command from outside. */
export const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Where a signal ends the process, `release` comes first, until the function that is returned is called. */
export function beforeSignals(release: () => Promise<void>): () => void {
  const interrupt = (signal: NodeJS.Signals): void => {
    ignore();
    // Now that nobody listens, the signal does what it does to any other program.
    const die = (): void => void process.kill(process.pid, signal);
    void release().then(die, die);
  };
  const ignore = (): void => {
    for (const signal of SIGNALS) process.off(signal, interrupt);
  };
  for (const signal of SIGNALS) process.on(signal, interrupt);
  return ignore;
}

/** Waits for something that holds what others wait for, too: where a signal ends the process, `release` comes first. */
export async function unlessInterrupted<T>(work: Promise<T>, release: () => Promise<void>): Promise<T> {
  let isInterrupted = false;
  const ignore = beforeSignals(() => {
    isInterrupted = true;
    return release();
  });
  try {
    return await work;
  } finally {
    // Nothing begins any more, and that everything was closed is no news to whoever ended it.
    if (isInterrupted) await new Promise<never>(() => {});
    ignore();
  }
}
