import { isObject, type Json } from '../../json.ts';
import type { FormContent, FormSchema } from '../../wire/index.ts';
import type { OutputOf, StandardSchema } from '../state/schema.ts';
import { plainForm } from './plain-form.ts';

/** JSON Schema whose type says no more than that: of a constant, or as a library makes it. */
export interface JsonSchema {
  readonly type?: unknown;
  readonly properties?: unknown;
  readonly [keyword: string]: unknown;
}

/** What `flow.ask` takes as a schema: the form itself, any JSON Schema of one, or a schema of zod, valibot, arktype and others. */
export type AskSchema = FormSchema | StandardSchema | JsonSchema;

/** What an answer to such a question is. */
export type AnswerOf<Schema> = Schema extends StandardSchema ? OutputOf<Schema> : FormContent<Schema>;

/** A schema that says by itself whether an answer fits. */
export function standardOf(schema: unknown): StandardSchema | undefined {
  const standard = (schema as { readonly '~standard'?: { readonly validate?: unknown } } | undefined)?.[
    '~standard'
  ];
  return typeof standard?.validate === 'function' ? (schema as StandardSchema) : undefined;
}

/** The form that a schema describes; undefined if its library has no way to say so. */
export function formOf(schema: unknown): unknown {
  const isForm = isObject(schema) && isObject(schema['properties']);
  if (!standardOf(schema) && !(isForm && '$schema' in schema)) return schema;
  const described = isForm ? schema : describedBy(schema as Describing);
  if (!isObject(described)) return undefined;
  // What libraries add that no form needs; zod also puts functions on the JSON Schema that it makes.
  const { $schema: _, additionalProperties: __, '~standard': ___, ...form } = described;
  const properties = isObject(form['properties']) ? form['properties'] : {};
  return {
    ...form,
    properties: Object.fromEntries(
      Object.entries(properties).map(([name, field]) => [name, asField(field as Json)]),
    ),
  };
}

/** The ways in which libraries describe their schemas as JSON Schema. */
interface Describing {
  readonly '~standard': {
    readonly jsonSchema?: { input?(options: { readonly target: string }): unknown };
  };
  toJsonSchema?(): unknown;
  toJSONSchema?(options: { readonly io: 'input' }): unknown;
}

function describedBy(schema: Describing): unknown {
  const { jsonSchema } = schema['~standard'];
  // Standard JSON Schema (zod from 4.2, arktype), then the libraries' own methods, then what zod 3 and valibot hold.
  return (
    jsonSchema?.input?.({ target: 'draft-2020-12' }) ??
    schema.toJsonSchema?.() ??
    schema.toJSONSchema?.({ io: 'input' }) ??
    plainForm(schema)
  );
}

const FORMATS: ReadonlySet<unknown> = new Set(['email', 'uri', 'date', 'date-time']);

/** A field as elicitation has it. What cannot be said there is checked when the answer comes. */
function asField(field: Json): Json {
  if (!isObject(field)) return field;
  const { pattern: _, format, ...rest } = field;
  const choices =
    rest['enum'] ?? constants(rest['anyOf'] ?? (rest['const'] !== undefined ? [rest] : undefined));
  if (Array.isArray(choices) && choices.every((choice) => typeof choice === 'string')) {
    const { anyOf: __, const: ___, ...others } = rest;
    return { ...others, type: 'string', enum: choices };
  }
  if (rest['type'] === 'array') return { ...rest, items: asField(rest['items'] ?? null) };
  return FORMATS.has(format) ? { ...rest, format: format as string } : rest;
}

function constants(options: unknown): Json | undefined {
  if (!Array.isArray(options)) return undefined;
  const values = options.map((option) => (isObject(option) ? option['const'] : undefined));
  return values.every((value) => typeof value === 'string') ? (values as Json) : undefined;
}
