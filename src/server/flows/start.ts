import type { Exchange } from '../exchange.ts';
import { Slot } from '../exchange.ts';
import { endingOf } from './answer.ts';
import { type Continuation, newFlowId } from './continuation.ts';
import { FlowError } from './errors.ts';
import type { Input } from './input.ts';
import { Journal, type StepKind } from './journal.ts';
import type { FlowSettings } from './options.ts';
import type { Question } from './question.ts';

/** The starting point of a run. */
export interface Start {
  /** The previous round, or undefined if the flow starts here (or starts over). */
  readonly past: Continuation | undefined;
  readonly journal: Journal;
  /** The number of questions of the previous round that have an answer now. */
  readonly answers: number;
}

const METHODS: Readonly<Partial<Record<StepKind, string>>> = {
  a: 'elicitation/create',
  s: 'sampling/createMessage',
  r: 'roots/list',
};

/** Returns the kind of step that a question is. */
export function kindOf({ method }: Question): StepKind {
  return method === METHODS.s ? 's' : method === METHODS.r ? 'r' : 'a';
}

/** A run of a flow. */
export interface Run extends Start {
  readonly settings: FlowSettings;
  /** The flow's id. */
  readonly id: string;
  /** 1, or more if a middleware has made the handler start over. */
  readonly attempt: number;
}

/** The last run of an exchange's flow. Each flow has its own settings object, which tells it from others in the same call. */
const runs = new Slot<Run>();

/**
 * Begins a run.
 *
 * If the exchange has started over, this is the same flow as before: completed effects stay completed, and answered questions
 * are not asked again.
 */
export function begin(
  exchange: Exchange,
  input: Input | undefined,
  settings: FlowSettings,
  room: number,
): Run {
  const start = startFrom(input, settings, room);
  const before = runs.get(exchange);
  if (before && before.settings !== settings) return { ...start, settings, id: idOf(start), attempt: 1 };
  if (before) start.journal.takeOver(before.journal);
  const run = { ...start, settings, id: before?.id ?? idOf(start), attempt: (before?.attempt ?? 0) + 1 };
  runs.set(exchange, run);
  return run;
}

function idOf({ past }: Start): string {
  return past?.f ?? newFlowId();
}

/** Returns the journal of the previous rounds, with the answers that have just arrived. */
function startFrom(input: Input | undefined, settings: FlowSettings, room: number): Start {
  const past = input?.continuation;
  if (!input || !past) return { past: undefined, journal: new Journal(room), answers: 0 };
  if (past.h !== settings.version) {
    if (settings.otherVersion === 'restart')
      return { past: undefined, journal: new Journal(room), answers: 0 };
    throw otherVersion(past.h, settings.version);
  }
  const journal = new Journal(room, past.j);
  let answers = 0;
  for (const [key, kind, print] of past.q ?? []) {
    const answer = input.answers.get(key);
    const ending = answer && endingOf(METHODS[kind] ?? '', answer);
    if (!ending) continue;
    journal.answer(key, kind, print, ending);
    answers++;
  }
  return { past, journal, answers };
}

/** When a round was first asked and when it ends (in seconds since 1970), and how many seconds remain. */
export interface Times {
  readonly since: number;
  readonly end: number;
  readonly ttl: number;
}

/** Computes the times of a round. A round asked again without a new answer keeps its end, or is renewed as the flow allows. */
export function timesOf(
  settings: FlowSettings,
  questions: readonly Question[],
  { past, answers }: Start,
): Times {
  const now = Math.floor(Date.now() / 1000);
  const ttl = Math.max(
    ...questions.map((question) => question.ttl ?? settings.ttl),
    questions.length === 0 ? settings.ttl : 0,
  );
  const isSame =
    past !== undefined &&
    answers === 0 &&
    past.q?.length === questions.length &&
    past.q.every(([key], place) => key === questions[place]?.key);
  if (!isSame) return { since: now, end: now + ttl, ttl };
  const last = settings.renew === undefined ? past.e : past.t + settings.renew;
  const end = Math.min(now + ttl, last);
  if (end <= now) throw tooLate(questions);
  return { since: past.t, end, ttl: end - now };
}

function otherVersion(was: string | number | undefined, is: string | number | undefined): FlowError {
  const name = (version: string | number | undefined): string =>
    version === undefined ? 'no version' : `version ${JSON.stringify(version)}`;
  return new FlowError(
    'other-version',
    `This call was begun by a handler of ${name(was)}, and the handler here has ${name(is)}.`,
    { next: 'Make the call again.' },
  );
}

function tooLate(questions: readonly Question[]): FlowError {
  const named = questions.map(({ key }) => `"${key}"`).join(', ');
  return new FlowError(
    'timeout',
    `Nobody answered ${named || 'in time'}, and the flow is not renewed any more.`,
    {
      next: 'Make the call again, or give the flow a longer renew.',
    },
  );
}
