import { remark } from './output.ts';

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
