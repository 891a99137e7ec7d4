import { isObject } from 'mcp-valise/internal';
import { type Field, fieldsOf, readValue } from '../../ask/field.ts';
import { members } from '../routes.ts';

/** A field of a form. Values of type `json` are typed as JSON. */
export interface FormField extends Omit<Field, 'type' | 'schema'> {
  readonly type: Field['type'] | 'json';
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly format?: string;
}

/** What was typed into a form: the content, or a problem for each field that does not fit. */
export type Filled =
  | { readonly content: Record<string, unknown> }
  | { readonly problems: Record<string, string> };

const PLAIN = new Set<unknown>(['string', 'number', 'integer', 'boolean']);

/** Returns the fields of a form for a schema: a question's, or the input of a tool. */
export function formOf(schema: unknown): FormField[] {
  return fieldsOf(schema).map(({ schema: own, ...field }) => {
    const isPlain = PLAIN.has(own['type']) || field.choices !== undefined;
    return {
      ...field,
      type: isPlain ? field.type : 'json',
      ...number(own, 'minimum'),
      ...number(own, 'maximum'),
      ...number(own, 'maxLength'),
      ...(typeof own['format'] === 'string' && { format: own['format'] }),
    };
  });
}

/** Reads what was typed: texts, choices and lists by field. A field without a value is left out. */
export function readForm(schema: unknown, given: unknown): Filled {
  const typed = members({ given }, 'given');
  const fields = fieldsOf(schema);
  const types = new Map(formOf(schema).map(({ name, type }) => [name, type]));
  const content: Record<string, unknown> = {};
  const problems: Record<string, string> = {};
  for (const field of fields) {
    const value = Object.hasOwn(typed, field.name) ? typed[field.name] : undefined;
    const read = readField(field, types.get(field.name) === 'json', value);
    if ('problem' in read) problems[field.name] = read.problem;
    else if (read.value !== undefined) content[field.name] = read.value;
  }
  return Object.keys(problems).length > 0 ? { problems } : { content };
}

function readField(field: Field, isJson: boolean, value: unknown): { value: unknown } | { problem: string } {
  const words = Array.isArray(value) ? value.map(String).join(',') : value;
  if (words === undefined || words === '')
    return field.required ? { problem: 'This one is needed.' } : { value: undefined };
  if (!isJson) return readValue(field, String(words));
  try {
    return { value: JSON.parse(String(words)) as unknown };
  } catch {
    return { problem: 'Write JSON, e.g. {"name": "value"}.' };
  }
}

function number(schema: Readonly<Record<string, unknown>>, name: string): object {
  return isObject(schema) && typeof schema[name] === 'number' ? { [name]: schema[name] } : {};
}
