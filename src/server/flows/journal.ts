import type { Json } from '../../core/json.ts';
import { dict } from '../../wire/index.ts';
import { FlowError } from './errors.ts';

/** The kinds of steps. Each is one letter because the journal travels. */
export type StepKind = 'a' | 's' | 'r' | 'o' | 'u' | 'b';

const QUESTIONS: ReadonlySet<StepKind> = new Set(['a', 's', 'r']);

/** How a step ended: with a value, or with an error that the client answered. */
export type Ending =
  | { readonly value: Json | undefined }
  | { readonly failed: { readonly code: number; readonly message: string } };

/** A step as it travels: key, kind, fingerprint of the question, 1 for a value or 0 for an error, and that value or error. */
type Line = readonly [key: string, kind: StepKind, print: string, ok: 0 | 1, value?: Json];

interface Step {
  readonly line: Line;
  replayed: boolean;
}

/** The record of a flow so far: how each step ended, by key. */
export class Journal {
  readonly #steps: { [key: string]: Step } = dict<never>();
  #earlier: { [key: string]: Line } | undefined;
  #left = 0;
  #room: number;

  /** Creates a journal. `room` is how many bytes of answers this run may add. */
  constructor(room: number, lines: readonly Line[] = []) {
    this.#room = room;
    for (const line of lines) {
      this.#steps[line[0]] = { line, replayed: false };
      this.#left++;
    }
  }

  /**
   * Takes over the steps of an earlier run of the same request that had to start over because other state had changed.
   *
   * With the new state the handler may take a different path, so these steps do not bind it. They are available if the handler
   * reaches them again.
   */
  takeOver(before: Journal): void {
    this.#earlier = Object.assign(dict<Line>(), before.#earlier);
    for (const line of before.lines()) this.#earlier[line[0]] = line;
  }

  /** Whether the handler has yet to reach steps that it took in earlier rounds. */
  get isReplaying(): boolean {
    return this.#left > 0;
  }

  /** The keys of steps that earlier rounds took and this one has not reached. */
  get left(): string[] {
    return Object.keys(this.#steps).filter((key) => !this.#steps[key]?.replayed);
  }

  /** Returns how a step ended in an earlier round. Throws if it is not the same step as before. */
  replay(key: string, kind: StepKind, print: string): Ending | undefined {
    const step = this.#steps[key];
    if (!step) return this.#regain(key, kind, print);
    if (!isStep(step.line, kind, print)) throw notTheSame(key);
    if (!step.replayed) {
      step.replayed = true;
      this.#left--;
    }
    return endingIn(step.line);
  }

  #regain(key: string, kind: StepKind, print: string): Ending | undefined {
    const line = this.#earlier?.[key];
    if (!line || !isStep(line, kind, print)) return undefined;
    this.#steps[key] = { line, replayed: true };
    return endingIn(line);
  }

  /** The number of questions that have been answered. */
  get answers(): number {
    return Object.values(this.#steps).filter(({ line: [, kind] }) => QUESTIONS.has(kind)).length;
  }

  /** Adds a step that the handler has just taken. */
  add(key: string, kind: StepKind, print: string, ending: Ending): void {
    this.#steps[key] = { line: this.#fitting(lineOf(key, kind, print, ending)), replayed: true };
  }

  /** Adds the answer to a question of the previous round, which the handler has yet to reach. */
  answer(key: string, kind: StepKind, print: string, ending: Ending): void {
    this.#steps[key] = { line: this.#fitting(lineOf(key, kind, print, ending)), replayed: false };
    this.#left++;
  }

  /** Throws if a client's answers exceed what a call may collect. Steps that the handler adds itself are not counted. */
  #fitting(line: Line): Line {
    if (!QUESTIONS.has(line[1])) return line;
    this.#room -= Buffer.byteLength(JSON.stringify(line[4] ?? null));
    if (this.#room < 0) throw tooLarge(line[0]);
    return line;
  }

  /** Returns the journal in the form in which it travels. */
  lines(): Line[] {
    return Object.values(this.#steps).map((step) => step.line);
  }
}

function isStep([, wasKind, wasPrint]: Line, kind: StepKind, print: string): boolean {
  return wasKind === kind && wasPrint === print;
}

function endingIn([, , , ok, value]: Line): Ending {
  return ok === 1 ? { value } : { failed: value as { readonly code: number; readonly message: string } };
}

function lineOf(key: string, kind: StepKind, print: string, ending: Ending): Line {
  if ('failed' in ending) return [key, kind, print, 0, ending.failed];
  return ending.value === undefined ? [key, kind, print, 1] : [key, kind, print, 1, ending.value];
}

/** The lines of a journal, as read from a sealed context. */
export type JournalLines = readonly Line[];

function tooLarge(key: string): FlowError {
  return new FlowError('too-large', `With the answer to "${key}", the answers of this call are too large.`, {
    key,
    next: 'Answer with less, or raise flows.limits.recordBytes on the server.',
  });
}

function notTheSame(key: string): FlowError {
  return new FlowError(
    'invalid-flow',
    `The step "${key}" is not what it was in an earlier round: the handler does not do the same each time it runs.`,
    {
      key,
      next: 'Let questions depend only on arguments, answers and what flow.once() returned; read what may change (a clock, a database, random values) inside flow.once().',
    },
  );
}
