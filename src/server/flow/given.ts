import type { Answer } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import { Slot } from '../slot.ts';

type Given = readonly [asked: string, answer: Answer];

/** What the requests of a call were answered, and what of it the present run of its handler has not asked for yet. */
const kept = new Slot<{ readonly run: number; readonly all: Given[]; readonly left: Given[] }>();

/** Asks, unless an earlier run of the same handler was given the answer: nobody is asked twice where it starts over. */
export async function askOnce(
  exchange: Exchange,
  asked: string,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  const { run } = exchange;
  const before = kept.get(exchange);
  const all = before?.all ?? [];
  const now = before?.run === run ? before : { run, all, left: [...all] };
  kept.set(exchange, now);
  const at = now.left.findIndex(([each]) => each === asked);
  const [known] = at === -1 ? [] : now.left.splice(at, 1);
  if (known) return known[1];
  const answer = await ask();
  all.push([asked, answer]);
  return answer;
}
