import { seconds } from '../../duration.ts';
import { isObject, type Json, type JsonObject } from '../../json.ts';
import { type Answer, isShallow, type Params, type Result } from '../../wire/index.ts';
import { FlowError } from './errors.ts';
import { formOf } from './form.ts';
import type { Ending } from './journal.ts';
import type { FormQuestion, PageQuestion } from './types.ts';

/** A request for the client to answer. */
export interface Question {
  readonly key: string;
  readonly method: string;
  readonly params?: Params;
  /** How long the question may stay open, in seconds. */
  readonly ttl?: number;
  /** Why a model may not answer it. */
  readonly mark?: 'consent' | 'secret';
}

/** Builds the elicitation that a handler asks for. */
export function elicitation(flow: string, key: string, question: FormQuestion | PageQuestion): Question {
  const { message } = question;
  const mark = markOf(question);
  const params: Params =
    'url' in question && question.url !== undefined
      ? { mode: 'url', message, url: question.url, elicitationId: `${flow}.${key}` }
      : {
          message,
          requestedSchema: formSchema(key, 'schema' in question ? formOf(question.schema) : undefined),
        };
  return {
    key,
    method: 'elicitation/create',
    params,
    ...(question.ttl !== undefined && { ttl: seconds(question.ttl) }),
    ...(mark && { mark }),
  };
}

/** What is entered on a page of the author's never passes through a client. */
function markOf(question: FormQuestion | PageQuestion): Question['mark'] {
  if (!('schema' in question) || question.secret) return 'secret';
  return question.consent ? 'consent' : undefined;
}

/**
 * Checks a form's schema. Clients refuse a form that they cannot show without naming the cause, so the author learns it here.
 */
function formSchema(key: string, schema: unknown): JsonObject {
  if (
    !isObject(schema) ||
    schema.type !== 'object' ||
    !isObject(schema.properties) ||
    !(schema.required === undefined || isTexts(schema.required))
  ) {
    throw new FlowError(
      'invalid-schema',
      `The schema of the question "${key}" is not the schema of a form.`,
      {
        key,
        next: "Give { type: 'object', properties: { … } } with plain fields, or an object schema of zod, valibot or arktype with such fields; of another library, the JSON Schema that it makes.",
      },
    );
  }
  for (const [name, field] of Object.entries(schema.properties)) {
    if (isField(field) && !UNSAFE.has(name)) continue;
    throw new FlowError(
      'invalid-schema',
      `The schema of the question "${key}" is not the schema of a form: nobody can fill in "${name}".`,
      {
        key,
        next: `Let it be a string (in no format but ${[...FORMATS].join(', ')}), a number, an integer, a boolean, or an array with items: { type: 'string', enum: [ … ] }.`,
      },
    );
  }
  return schema as JsonObject;
}

const FORMATS: ReadonlySet<unknown> = new Set(['email', 'uri', 'date', 'date-time']);

/** Whether both SDKs accept the field. They drop or ignore keywords that they do not know. */
function isField(field: unknown): boolean {
  if (!isObject(field)) return false;
  switch (field.type) {
    case 'string':
      return (
        field.format === undefined ||
        FORMATS.has(field.format) ||
        isTexts(field.enum) ||
        isTitled(field.oneOf)
      );
    case 'number':
    case 'integer':
    case 'boolean':
      return true;
    case 'array':
      return (
        isObject(field.items) &&
        ((field.items.type === 'string' && isTexts(field.items.enum)) || isTitled(field.items.anyOf))
      );
    default:
      return false;
  }
}

function isTitled(options: unknown): boolean {
  return (
    Array.isArray(options) &&
    options.every(
      (option) => isObject(option) && typeof option.const === 'string' && typeof option.title === 'string',
    )
  );
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((text) => typeof text === 'string');
}

/** The maximum number of answers in a call. A call that asks forever must not exhaust whoever answers. */
const MOST = 100;

/** Throws if a call that has this many answers may not ask another question. */
export function requireRoom(answers: number, key: string): void {
  if (answers < MOST) return;
  throw new FlowError(
    'limit-reached',
    `The call may not ask "${key}": it has had ${MOST} answers, the most there may be.`,
    { key, next: 'Ask for more in one form, or spread the questions over several calls.' },
  );
}

/**
 * Returns a hash that represents a question in the journal.
 *
 * It detects mistakes in a handler, not attacks, which the seal prevents. A fast hash (cyrb53) is therefore enough.
 */
export function fingerprint({ params }: Question): string {
  const text = params === undefined ? '' : JSON.stringify(params);
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    high = Math.imul(high ^ code, 0x9e3779b1);
    low = Math.imul(low ^ code, 0x5f356495);
  }
  return (4294967296 * (0x1fffff & low) + (high >>> 0)).toString(36);
}

/** Names that reach an object's prototype if somebody copies an answer carelessly. No question asks for them. */
const UNSAFE: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

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
