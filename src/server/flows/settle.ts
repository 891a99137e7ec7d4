import type { Json, JsonObject } from '../../json.ts';
import { checkForm, type FormSchema } from '../../wire/index.ts';
import { issuesText, type SchemaResult } from '../jar/schema.ts';
import { FlowError } from './errors.ts';
import { type AskSchema, formOf, standardOf } from './form.ts';
import type { Ending } from './journal.ts';
import type { FormQuestion, PageQuestion, Reaction } from './types.ts';

/** Returns the value of a step. Throws if the client answered with an error. */
export function gained(key: string, ending: Ending): Json | undefined {
  if ('value' in ending) return ending.value;
  const { code, message } = ending.failed;
  throw new FlowError(
    'ask-failed',
    `The client answered the question "${key}" with error ${code}: ${message.replace(/\.$/, '')}.`,
    { key },
  );
}

/** Returns the result of `flow.ask`. Answers come from the client, so they are checked each time they are read. */
export function reactionOf(key: string, question: FormQuestion | PageQuestion, ending: Ending): unknown {
  const { action, content } = gained(key, ending) as {
    action: Reaction<unknown>['action'];
    content?: JsonObject;
  };
  const byValue = question.refusal === 'value';
  if (action === 'accept') {
    const accepted =
      'schema' in question && question.schema !== undefined
        ? checked(key, question.schema, content ?? {})
        : undefined;
    if (accepted instanceof Promise)
      return byValue ? accepted.then((late) => ({ action, content: late })) : accepted;
    return byValue ? { action, content: accepted } : accepted;
  }
  if (byValue) return { action };
  throw new FlowError(
    action === 'decline' ? 'ask-declined' : 'ask-cancelled',
    action === 'decline'
      ? `The user declined to answer "${key}".`
      : `The user closed the question "${key}" without an answer.`,
    { key },
  );
}

/** Drops fields that the form of the question does not name. */
function onlyAsked({ properties }: FormSchema, content: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(content).filter(([name]) => Object.hasOwn(properties, name)));
}

/** Returns the answer for the handler. A library's schema may transform it, also asynchronously. */
function checked(key: string, schema: AskSchema, content: JsonObject): unknown {
  const standard = standardOf(schema);
  if (standard) {
    const result = standard['~standard'].validate(onlyAsked(formOf(schema) as FormSchema, content));
    return result instanceof Promise ? result.then((late) => made(key, late)) : made(key, result);
  }
  const problems = checkForm(schema as FormSchema, content);
  if (problems.length === 0) return onlyAsked(schema as FormSchema, content);
  const named = problems
    .slice(0, 5)
    .map(({ field, expected }) => (field === '' ? expected : `${field} should be ${expected}`))
    .join('; ');
  throw unfit(key, named);
}

function made(key: string, result: SchemaResult<unknown>): unknown {
  if (result.issues) throw unfit(key, issuesText(result.issues));
  return result.value;
}

function unfit(key: string, named: string): FlowError {
  return new FlowError('answer-invalid', `The answer to "${key}" does not fit its schema: ${named}.`, {
    key,
    next: 'Call again and answer what is asked.',
  });
}
