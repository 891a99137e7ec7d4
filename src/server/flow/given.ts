import type { Answer } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import { Slot } from '../slot.ts';
import { FlowError } from './errors.ts';
import { requireRoom } from './question.ts';

type Given = readonly [asked: string, answer: Answer, bytes: number];

/** What the requests of a call were answered, and what of it the present run of its handler has not asked for yet. */
const kept = new Slot<{ readonly run: number; readonly all: Given[]; readonly left: Given[] }>();

/** Asks, unless an earlier run of the same handler was given the answer: nobody is asked twice where it starts over. */
export async function askOnce(
  exchange: Exchange,
  asked: string,
  room: number,
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
  requireRoom(all.length, asked);
  const answer = await ask();
  all.push([asked, answer, Buffer.byteLength(JSON.stringify(answer))]);
  if (all.reduce((sum, [, , bytes]) => sum + bytes, 0) > room)
    throw new FlowError('journal-too-large', 'The answers to the requests of this call are too large.', {
      next: 'Answer with less, or raise rounds.limits.recordBytes on the server.',
    });
  return answer;
}
