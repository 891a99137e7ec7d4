import { isObject, type Json, type JsonObject } from '../../core/json.ts';
import { type Answer, checkForm, type FormSchema, isShallow, type Result } from '../../wire/index.ts';
import { issuesText, type SchemaResult } from '../jar/schema.ts';
import { FlowError } from './errors.ts';
import { type AskSchema, formOf, standardOf, UNSAFE } from './form.ts';
import type { Ending } from './journal.ts';
import type { FormQuestion, PageQuestion, Reaction } from './types.ts';

/**
 * Removes own properties with {@link UNSAFE} names from an answer, at any depth. An answer that is too deep is refused when
 * read.
 */
export function safeAnswer(answer: Answer): Answer {
  if ('error' in answer || !isShallow(answer.result)) return answer;
  return { result: safe(answer.result) as Result };
}

function safe(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(safe);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, each]) => (UNSAFE.has(name) ? [] : [[name, safe(each)]])),
  );
}

/** Returns how a question ended, or undefined if the client's answer cannot be read. The question is then asked again. */
export function endingOf(method: string, answer: Answer): Ending | undefined {
  if ('error' in answer) {
    const { code, message } = answer.error;
    return { failed: { code, message: String(message).slice(0, 500) } };
  }
  const { _meta, resultType, ...result } = answer.result as Record<string, Json> & {
    readonly _meta?: unknown;
  };
  if (!isShallow(result)) return undefined;
  switch (method) {
    case 'elicitation/create':
      return reaction(result);
    case 'sampling/createMessage':
      return typeof result.role === 'string' && typeof result.content === 'object'
        ? { value: result }
        : undefined;
    case 'roots/list':
      return Array.isArray(result.roots) &&
        result.roots.every((root) => isObject(root) && typeof root.uri === 'string')
        ? { value: result.roots }
        : undefined;
    default:
      return { value: result };
  }
}

function reaction({ action, content }: { readonly [name: string]: Json | undefined }): Ending | undefined {
  if (action === 'decline' || action === 'cancel') return { value: { action } };
  if (action !== 'accept') return undefined;
  if (content === undefined || content === null) return { value: { action } };
  return isObject(content) ? { value: { action, content: content as JsonObject } } : undefined;
}

/** Returns the value of a step. Throws if the client answered with an error. */
export function valueIn(key: string, ending: Ending): Json | undefined {
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
  const { action, content } = valueIn(key, ending) as {
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
