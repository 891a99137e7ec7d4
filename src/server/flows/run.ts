import { seconds } from '../../core/duration.ts';
import { ValiseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import {
  ANYTHING,
  checkArgument,
  checkOptions,
  FLAG,
  FUNCTION,
  type Taken,
  type TakenBy,
  TEXT,
} from '../../core/options.ts';
import { type Answer, INVALID_PARAMS } from '../../wire/index.ts';
import { endingOf, reactionOf, valueIn } from './answer.ts';
import { FlowError } from './errors.ts';
import type { Ending, Journal, StepKind } from './journal.ts';
import type { Once } from './once.ts';
import { elicitation, fingerprint, type Question } from './question.ts';
import type {
  Effect,
  Flow,
  FormQuestion,
  OnceOptions,
  PageQuestion,
  QuestionKind,
  Reaction,
  Root,
  Sample,
  UntilOptions,
} from './types.ts';

/** The services that a run needs. */
export interface RunSetup {
  readonly id: string;
  readonly journal: Journal;
  readonly extra: unknown;
  /** Whether the client can be asked to fill in a form. */
  canAsk(): boolean;
  /** Throws if the client cannot be asked this question. */
  admit(question: Question): void;
  /** Returns the answer if it came with the call or is waited for in memory, or undefined if the question must be carried. */
  answer(kind: QuestionKind, question: Question): Promise<Answer> | undefined;
  /** Whether the call returns to the client as "still waiting". Otherwise the handler waits as long as it takes. */
  readonly suspends: boolean;
  /** Aborted when the caller no longer wants the answer. */
  readonly signal: AbortSignal | undefined;
  readonly once: Once;
  progress(progress: number, total?: number, message?: string): Promise<void>;
}

/** A question of this round, with its fingerprint. */
export interface Asked {
  readonly question: Question;
  readonly print: string;
}

/** How a run of the handler ended: with a value, or waiting for answers (or for `until`, if there are no questions). */
export type Outcome<Value> = { readonly value: Value } | { readonly asked: readonly Asked[] };

/** How long a handler may take, in milliseconds, to reach all the steps that it took in earlier rounds. */
const CATCH_UP = 2000;
const UNREADABLE: Ending = { failed: { code: INVALID_PARAMS, message: 'the answer could not be read' } };
const KINDS = { ask: 'a', sample: 's', roots: 'r' } as const satisfies Record<QuestionKind, StepKind>;

/** One run of a handler, from the top to its end or to the first questions that have no answer yet. */
export class FlowRun implements Flow {
  readonly id: string;
  readonly extra: unknown;
  readonly #setup: RunSetup;
  readonly #taken = new Set<string>();
  readonly #asked: Asked[] = [];
  #effects = 0;
  #holds = 0;
  #scheduled = false;
  #over = false;
  #mistake: FlowError | undefined;
  #suspend: () => void = () => {};

  constructor(setup: RunSetup) {
    this.#setup = setup;
    this.id = setup.id;
    this.extra = setup.extra;
  }

  /** Runs the handler. Work that the handler does after it was suspended does not affect the outcome. */
  run<Value>(handler: (flow: Flow) => Value | Promise<Value>): Promise<Outcome<Value>> {
    return new Promise((resolve, reject) => {
      const end = (complete: () => void): void => {
        if (this.#over) return;
        this.#over = true;
        // The handler may swallow the error that reports its mistake. The mistake still counts.
        if (this.#mistake) reject(this.#mistake);
        else complete();
      };
      this.#suspend = () => end(() => resolve({ asked: this.#asked }));
      const finished = (value: Value): void => end(() => resolve({ value }));
      const failed = (error: unknown): void => end(() => reject(error));
      try {
        Promise.resolve(handler(this)).then(finished, failed);
      } catch (error) {
        failed(error);
      }
    });
  }

  async ask(key: string, question: FormQuestion | PageQuestion): Promise<never> {
    this.#requireKey(key);
    checkQuestion(key, question);
    const asked = elicitation(this.id, key, question);
    return reactionOf(key, question, await this.#question('ask', asked)) as never;
  }

  async confirm(key: string, message: string): Promise<boolean> {
    const schema = { type: 'object', properties: {} } as const;
    const question = { message, schema, refusal: 'value', consent: true } as const;
    const { action } = (await this.ask(key, question)) as Reaction<unknown>;
    return action === 'accept';
  }

  async choose<const Option extends string>(
    key: string,
    message: string,
    options: readonly Option[],
  ): Promise<Option> {
    const choice = { type: 'string', enum: options };
    const schema = { type: 'object', properties: { choice }, required: ['choice'] };
    return ((await this.ask(key, { message, schema })) as { readonly choice: Option }).choice;
  }

  canAsk(): boolean {
    return this.#setup.canAsk();
  }

  async sample(key: string, params: { readonly [name: string]: unknown }): Promise<Sample> {
    this.#requireKey(key);
    checkSample(key, params);
    const asked: Question = { key, method: 'sampling/createMessage', params };
    return valueIn(key, await this.#question('sample', asked)) as unknown as Sample;
  }

  async roots(key = 'roots'): Promise<readonly Root[]> {
    this.#requireKey(key);
    return valueIn(
      key,
      await this.#question('roots', { key, method: 'roots/list' }),
    ) as unknown as readonly Root[];
  }

  async once<Value>(
    key: string,
    effect: (effect: Effect) => Value | Promise<Value>,
    options?: OnceOptions,
  ): Promise<Value> {
    this.#requireKey(key);
    checkOnce(key, effect, options);
    const known = this.#take(key, 'o', '');
    if (known) return valueIn(key, known) as Value;
    this.#effects++;
    try {
      const value = await this.#setup.once(
        key,
        effect as (effect: Effect) => Promise<Json | undefined>,
        options ?? {},
      );
      this.#setup.journal.add(key, 'o', '', { value });
      return value as Value;
    } finally {
      this.#effects--;
      this.#schedule();
    }
  }

  async until<Value>(
    key: string,
    look: () => Value | undefined | Promise<Value | undefined>,
    options?: UntilOptions,
  ): Promise<Value> {
    this.#requireKey(key);
    checkUntil(key, look, options);
    const { every = 2, hold = 20 } = options ?? {};
    const known = this.#take(key, 'u', '');
    if (known) return valueIn(key, known) as Value;
    const pause = seconds(every) * 1000;
    const end = performance.now() + seconds(hold) * 1000;
    for (;;) {
      const value = await look();
      if (value !== undefined) {
        this.#setup.journal.add(key, 'u', '', { value: value as Json });
        return value;
      }
      if (this.#setup.signal?.aborted)
        throw new FlowError('ask-cancelled', `The call was cancelled while "${key}" was awaited.`, { key });
      if (this.#over) return never();
      if (this.#setup.suspends && performance.now() + pause > end) {
        this.#holds++;
        this.#schedule();
        return never();
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  async progress(progress: number, total?: number, message?: string): Promise<void> {
    if (this.#setup.journal.isReplaying || this.#over) return;
    await this.#setup.progress(progress, total, message);
  }

  async #question(kind: QuestionKind, question: Question): Promise<Ending> {
    const { key } = question;
    const print = fingerprint(question);
    const known = this.#take(key, KINDS[kind], print);
    if (known) return known;
    this.#setup.admit(question);
    const answer = this.#setup.answer(kind, question);
    if (answer) {
      const ending = endingOf(question.method, await answer) ?? UNREADABLE;
      this.#setup.journal.add(key, KINDS[kind], print, ending);
      return ending;
    }
    this.#asked.push({ question, print });
    this.#schedule();
    return never();
  }

  #requireKey(key: string): void {
    if (typeof key === 'string' && key !== '') return;
    throw this.#wrong(
      new FlowError('invalid-flow', 'A step of a flow has no key.', {
        next: 'Give each step a text of its own.',
      }),
    );
  }

  #take(key: string, kind: StepKind, print: string): Ending | undefined {
    if (this.#taken.has(key)) throw this.#wrong(sameKey(key));
    this.#taken.add(key);
    try {
      return this.#setup.journal.replay(key, kind, print);
    } catch (error) {
      throw this.#wrong(error as FlowError);
    }
  }

  #wrong(mistake: FlowError): FlowError {
    this.#mistake ??= mistake;
    return mistake;
  }

  /**
   * Suspends the run once the handler is idle.
   *
   * When no promise can make progress, the handler has asked everything that it asks together (`Promise.all`). The run waits
   * for effects in progress, since the journal must record how they ended.
   */
  #schedule(): void {
    if (this.#scheduled || this.#over || (this.#asked.length === 0 && this.#holds === 0)) return;
    this.#scheduled = true;
    // When scheduled from a microtask, the next tick comes after all promises have settled what they can.
    queueMicrotask(() => process.nextTick(() => this.#rest(performance.now() + CATCH_UP)));
  }

  #rest(patience: number): void {
    this.#scheduled = false;
    if (this.#effects > 0 || this.#over) return;
    if (this.#asked.length > 0 && this.#setup.journal.isReplaying) {
      // Another branch of the handler may still reach a step that already has its answer.
      if (performance.now() < patience) {
        this.#scheduled = true;
        setTimeout(() => this.#rest(patience), 10);
        return;
      }
      this.#wrong(tookAnotherPath(this.#setup.journal.left));
    }
    this.#suspend();
  }
}

/** Creates a new promise each time, because a shared one would retain everybody who ever waited for it. */
function never(): Promise<never> {
  return new Promise(() => {});
}

function sameKey(key: string): FlowError {
  return new FlowError('invalid-flow', `The flow has two steps with the key "${key}".`, {
    key,
    next: 'Give each ask, sample, roots, once and until a key of its own; in a loop, put the index into it.',
  });
}

function tookAnotherPath(left: readonly string[]): FlowError {
  const steps = left
    .slice(0, 5)
    .map((key) => `"${key}"`)
    .join(', ');
  return new FlowError(
    'invalid-flow',
    `The handler asks something new, but did not come to ${steps} as in an earlier round.`,
    {
      next: 'Let the path through the handler depend only on arguments, answers and what flow.once() returned; read what may change inside flow.once().',
    },
  );
}

const QUESTION: TakenBy<FormQuestion & PageQuestion> = {
  message: TEXT,
  // The schema is checked when the form is built.
  schema: ANYTHING,
  url: TEXT,
  refusal: ["'throw' or 'value'", (value) => value === 'throw' || value === 'value'],
  ttl: ANYTHING,
  consent: FLAG,
  secret: FLAG,
};

const ASKED = '{ message, schema }, or { message, url }';

/** Accepts either a form or a page. With both, nobody could tell which one was answered. */
const ONE: Taken = [
  ASKED,
  (value) => isObject(value) && (value['schema'] === undefined || value['url'] === undefined),
];

/** Checks only what is required, since later revisions may add other params. */
const SAMPLE: Taken = [
  'the params of sampling/createMessage, with a list of messages and a number of maxTokens',
  (value) => isObject(value) && Array.isArray(value['messages']) && typeof value['maxTokens'] === 'number',
];

const ONCE: TakenBy<OnceOptions> = {
  cutOff: ["'fail' or 'retry'", (value) => value === 'fail' || value === 'retry'],
};

const UNTIL: TakenBy<UntilOptions> = { every: ANYTHING, hold: ANYTHING };

/** Throws if the argument of `flow.ask` is not a valid question. */
function checkQuestion(key: string, question: FormQuestion | PageQuestion): void {
  const name = step('ask', key);
  checkArgument(name, question, ONE);
  checkOptions(name, question as FormQuestion & PageQuestion, QUESTION);
  if (question.message === undefined)
    throw new ValiseError('invalid-argument', `The question "${key}" has no message.`, {
      next: `Give ${ASKED}.`,
    });
}

/** Throws if the params of `flow.sample` lack what every client requires. */
function checkSample(key: string, params: object): void {
  checkArgument(step('sample', key), params, SAMPLE);
}

/** Throws if the arguments of `flow.once` are invalid. */
function checkOnce(key: string, effect: unknown, options: OnceOptions | undefined): void {
  const name = step('once', key);
  checkArgument(name, effect, FUNCTION);
  if (options) checkOptions(name, options, ONCE);
}

/** Throws if the arguments of `flow.until` are invalid. */
function checkUntil(key: string, look: unknown, options: UntilOptions | undefined): void {
  const name = step('until', key);
  checkArgument(name, look, FUNCTION);
  if (options) checkOptions(name, options, UNTIL);
}

function step(name: string, key: string): string {
  return `flow.${name}(${JSON.stringify(key)})`;
}
