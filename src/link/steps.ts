import type { Response } from '../wire/message.ts';
import type { Top } from './top.ts';

/** Sees a response on its way; returns it, another one, or `undefined` to keep it (and act on it later). */
export type Answered = (
  response: Response,
  top: Top | undefined,
) => Response | undefined | Promise<Response | undefined>;

/** A step on the way of a response, with those that were registered before it and see the response after it. */
export interface Step {
  readonly answered: Answered;
  readonly before: Step | undefined;
}

/** Runs a response through the steps, the one registered last first. A promise only where one of them takes its time. */
export function walk(
  last: Step | undefined,
  response: Response,
  top?: Top,
): Response | undefined | Promise<Response | undefined> {
  let current = response;
  for (let step = last; step; step = step.before) {
    const { before } = step;
    const next = step.answered(current, top);
    if (next instanceof Promise) return next.then((late) => late && walk(before, late, top));
    if (next === undefined) return undefined;
    current = next;
  }
  return current;
}
