import type { Passing } from '../examples/load-balancer.ts';
import type { Instance } from '../tour/processes.ts';

/** A set of instances in which some start while others stop. */
export interface Rotation {
  /** Returns the addresses of the instances that accept requests now; waits if there is none. */
  targets(): Promise<readonly URL[]>;
  /** Replaces an instance: it gets no more requests immediately, and is killed when `after` resolves. */
  replace(url: URL, after: Promise<void>): Promise<void>;
}

/**
 * Keeps instances in rotation. `start` starts a new instance at an index; `killed` is called for each one that has ended.
 */
export function rotate(
  first: readonly Instance[],
  start: (at: number) => Promise<Instance>,
  killed: (instance: Instance) => void,
): Rotation {
  const places: (Instance | undefined)[] = [...first];
  const starting = new Set<Promise<void>>();
  const urls = (): URL[] => places.flatMap((instance) => (instance ? [instance.url] : []));

  const fill = async (at: number): Promise<void> => {
    places[at] = await start(at);
  };

  return {
    async targets() {
      while (urls().length === 0 && starting.size > 0) await Promise.race(starting).catch(() => undefined);
      return urls();
    },

    async replace(url, after) {
      const at = places.findIndex((instance) => instance?.url.href === url.href);
      const instance = places[at];
      // The instance may have asked twice before it was removed.
      if (!instance) return;
      places[at] = undefined;
      const filling = fill(at);
      starting.add(filling);
      const ending = after.then(() => instance.kill()).then(() => killed(instance));
      try {
        await Promise.all([filling, ending]);
      } finally {
        starting.delete(filling);
      }
    },
  };
}

/** How long a stream may stay open after a question before its instance is killed anyway, in milliseconds. */
const PATIENCE = 250;

/**
 * Replaces each instance that has asked something. No answer can reach it, because it leaves the rotation before the
 * question is passed on.
 */
export function killAskers(
  isQuestion: (message: unknown) => boolean,
  { replace }: Rotation,
  failed: (error: Error) => void,
): (passing: Passing) => void {
  return ({ from, url, message, over }) => {
    if (from !== 'server' || !isQuestion(message)) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, PATIENCE);
    });
    replace(
      url,
      Promise.race([over, late]).finally(() => clearTimeout(timer)),
    ).catch(failed);
  };
}
