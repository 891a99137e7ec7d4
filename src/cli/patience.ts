import { remark } from './output.ts';

const SOON = 3000;
const AGAIN = 30_000;

/** Does something that may take long, and says on stderr what is waited for where it does. */
export async function whileWaiting<T>(what: string | (() => string), work: () => Promise<T>): Promise<T> {
  const began = Date.now();
  const tell = (): void => {
    const waited = Math.round((Date.now() - began) / 1000);
    remark(`valise: still waiting for ${typeof what === 'string' ? what : what()} (${waited} s)`);
    timer = setTimeout(tell, AGAIN);
  };
  let timer = setTimeout(tell, SOON);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
  }
}
