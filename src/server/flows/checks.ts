import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import {
  ANYTHING,
  checkArgument,
  checkOptions,
  FLAG,
  FUNCTION,
  type Taken,
  type TakenBy,
  TEXT,
} from '../../options.ts';
import type { FormQuestion, OnceOptions, PageQuestion, UntilOptions } from './types.ts';

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
export function checkQuestion(key: string, question: FormQuestion | PageQuestion): void {
  const name = step('ask', key);
  checkArgument(name, question, ONE);
  checkOptions(name, question as FormQuestion & PageQuestion, QUESTION);
  if (question.message === undefined)
    throw new ValiseError('invalid-argument', `The question "${key}" has no message.`, {
      next: `Give ${ASKED}.`,
    });
}

/** Throws if the params of `flow.sample` lack what every client requires. */
export function checkSample(key: string, params: object): void {
  checkArgument(step('sample', key), params, SAMPLE);
}

/** Throws if the arguments of `flow.once` are invalid. */
export function checkOnce(key: string, effect: unknown, options: OnceOptions | undefined): void {
  const name = step('once', key);
  checkArgument(name, effect, FUNCTION);
  if (options) checkOptions(name, options, ONCE);
}

/** Throws if the arguments of `flow.until` are invalid. */
export function checkUntil(key: string, look: unknown, options: UntilOptions | undefined): void {
  const name = step('until', key);
  checkArgument(name, look, FUNCTION);
  if (options) checkOptions(name, options, UNTIL);
}

function step(name: string, key: string): string {
  return `flow.${name}(${JSON.stringify(key)})`;
}
