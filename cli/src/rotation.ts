import type { Passing } from './front.ts';
import type { Instance } from './tour/processes.ts';

/** Instances of which some come while others go. */
export interface Rotation {
  /** Where the instances listen that take requests now; waits where there is none. */
  targets(): Promise<readonly URL[]>;
  /** Puts another instance in the place of one: it gets no more requests at once, and is killed when `after` resolves. */
  replace(url: URL, after: Promise<void>): Promise<void>;
}

/** Keeps instances in rotation. `start` starts the one at a place anew; `killed` is told of each that has ended. */
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
      // It may have asked twice before it went.
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

/** How long a stream may stay open after a question before its asker dies all the same, in milliseconds. */
const PATIENCE = 250;

/** Replaces each instance that has asked something. No answer can reach it: it is out before the question is. */
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
