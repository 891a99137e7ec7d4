import { remark } from '../output/output.ts';

/** Signals that end a command. */
export const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Runs `release` before a signal ends the process. Returns a function that removes the handlers. */
export function beforeSignals(release: () => Promise<void>): () => void {
  const interrupt = (signal: NodeJS.Signals): void => {
    ignore();
    // The handlers are removed, so the signal now has its default effect.
    const die = (): void => void process.kill(process.pid, signal);
    void release().then(die, die);
  };
  const ignore = (): void => {
    for (const signal of SIGNALS) process.off(signal, interrupt);
  };
  for (const signal of SIGNALS) process.on(signal, interrupt);
  return ignore;
}

/** Waits for work that holds something other processes wait for: if a signal ends the process, `release` runs first. */
export async function unlessInterrupted<T>(work: Promise<T>, release: () => Promise<void>): Promise<T> {
  let isInterrupted = false;
  const ignore = beforeSignals(() => {
    isInterrupted = true;
    return release();
  });
  try {
    return await work;
  } finally {
    // After a signal, this never resolves: nothing should start now, and the user expects the errors of closed resources.
    if (isInterrupted) await new Promise<never>(() => {});
    ignore();
  }
}

const SOON = 3000;
const AGAIN = 30_000;

/**
 * Runs something that may take long, and prints to stderr what it waits for if it does. Prints nothing while `what` returns
 * undefined.
 */
export async function whileWaiting<T>(
  what: string | (() => string | undefined),
  work: () => Promise<T>,
): Promise<T> {
  const began = Date.now();
  const tell = (): void => {
    const waited = Math.round((Date.now() - began) / 1000);
    const waitedFor = typeof what === 'string' ? what : what();
    if (waitedFor !== undefined) remark(`valise: still waiting for ${waitedFor} (${waited} s)`);
    timer = setTimeout(tell, AGAIN);
  };
  let timer = setTimeout(tell, SOON);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
  }
}
