import { isObject, type Json } from '../core/json.ts';

/** One field of an elicitation form: a string, a number, a boolean, a choice, or several choices. */
export type FormField = { readonly type: string; readonly [keyword: string]: unknown };

/** The schema of a form: an object of plain fields without nesting. */
export interface FormSchema {
  readonly type: 'object';
  readonly properties: { readonly [name: string]: FormField };
  readonly required?: readonly string[];
  readonly [keyword: string]: unknown;
}

type Choice<Options> = Options extends readonly { readonly const: infer Value }[] ? Value : string;

type FieldValue<Field> = Field extends { readonly type: 'array'; readonly items: infer Items }
  ? readonly FieldText<Items>[]
  : Field extends { readonly type: 'boolean' }
    ? boolean
    : Field extends { readonly type: 'number' | 'integer' }
      ? number
      : Field extends { readonly type: 'string' }
        ? FieldText<Field>
        : Json;

type FieldText<Field> = Field extends { readonly enum: readonly (infer Value)[] }
  ? Value
  : Field extends { readonly oneOf: infer Options }
    ? Choice<Options>
    : Field extends { readonly anyOf: infer Options }
      ? Choice<Options>
      : string;

type RequiredNames<Schema> = Schema extends { readonly required: readonly (infer Name)[] } ? Name : never;

/** The content of a completed form. */
export type FormContent<Schema> = Schema extends { readonly properties: infer Fields }
  ? {
      readonly [Name in keyof Fields as Name extends RequiredNames<Schema> ? Name : never]: FieldValue<
        Fields[Name]
      >;
    } & {
      readonly [Name in keyof Fields as Name extends RequiredNames<Schema> ? never : Name]?: FieldValue<
        Fields[Name]
      >;
    }
  : { readonly [name: string]: Json };

/** A field with an invalid value: its name and the expected value. Never contains the actual value. */
export interface FormProblem {
  readonly field: string;
  readonly expected: string;
}

/** Returns the problems of a completed form, or an empty array if it is valid. */
export function checkForm(schema: FormSchema, content: unknown): FormProblem[] {
  if (!isObject(content)) return [{ field: '', expected: 'an object' }];
  const problems: FormProblem[] = [];
  for (const name of schema.required ?? []) {
    if (!Object.hasOwn(content, name)) problems.push({ field: name, expected: 'a value' });
  }
  for (const [name, field] of Object.entries(schema.properties)) {
    if (!Object.hasOwn(content, name)) continue;
    const expected = checkField(field, content[name]);
    if (expected !== undefined) problems.push({ field: name, expected });
  }
  return problems;
}

/** Returns the expected value of a field if `value` does not fit, otherwise undefined. */
export function checkField(field: FormField, value: unknown): string | undefined {
  switch (field.type) {
    case 'string':
      return checkText(field, value);
    case 'number':
    case 'integer':
      return checkNumber(field, value);
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'true or false';
    case 'array':
      return checkChoices(field, value);
    default:
      return undefined;
  }
}

/** Returns the values a field offers as choices, or undefined if it accepts any value. */
export function choicesOf(field: { readonly [keyword: string]: unknown }): readonly string[] | undefined {
  if (Array.isArray(field.enum))
    return field.enum.filter((value): value is string => typeof value === 'string');
  const options = field.oneOf ?? field.anyOf;
  if (!Array.isArray(options)) return undefined;
  return options.flatMap((option) =>
    isObject(option) && typeof option.const === 'string' ? [option.const] : [],
  );
}

function checkText(field: FormField, value: unknown): string | undefined {
  const choices = choicesOf(field);
  if (choices) return choices.includes(value as string) ? undefined : `one of ${list(choices)}`;
  if (typeof value !== 'string') return 'a text';
  // JSON Schema counts Unicode characters, not UTF-16 code units.
  const length = value.length > 0 ? [...value].length : 0;
  if (typeof field.minLength === 'number' && length < field.minLength)
    return `a text of at least ${field.minLength} characters`;
  if (typeof field.maxLength === 'number' && length > field.maxLength)
    return `a text of at most ${field.maxLength} characters`;
  const format = FORMATS.get(field.format);
  return !format || format.fits(value) ? undefined : format.name;
}

function checkNumber(field: FormField, value: unknown): string | undefined {
  if (typeof value !== 'number' || !Number.isFinite(value)) return 'a number';
  if (field.type === 'integer' && !Number.isInteger(value)) return 'a whole number';
  if (typeof field.minimum === 'number' && value < field.minimum) return `at least ${field.minimum}`;
  if (typeof field.maximum === 'number' && value > field.maximum) return `at most ${field.maximum}`;
  return undefined;
}

function checkChoices(field: FormField, value: unknown): string | undefined {
  if (!Array.isArray(value)) return 'a list';
  if (typeof field.minItems === 'number' && value.length < field.minItems)
    return `at least ${field.minItems} choices`;
  if (typeof field.maxItems === 'number' && value.length > field.maxItems)
    return `at most ${field.maxItems} choices`;
  const choices = isObject(field.items) ? choicesOf(field.items) : undefined;
  const fits = choices
    ? (item: unknown) => choices.includes(item as string)
    : (item: unknown) => typeof item === 'string';
  return value.every(fits) ? undefined : choices ? `choices out of ${list(choices)}` : 'a list of texts';
}

function list(choices: readonly string[]): string {
  return choices.map((choice) => JSON.stringify(choice)).join(', ');
}

const FORMATS: ReadonlyMap<unknown, { readonly name: string; fits(value: string): boolean }> = new Map([
  ['email', { name: 'an e-mail address', fits: (value) => /^[^\s@]{1,64}@[^\s@]{1,255}$/.test(value) }],
  [
    'uri',
    { name: 'a URI', fits: (value) => /^[A-Za-z][A-Za-z0-9+.-]*:\S*$/.test(value) && URL.canParse(value) },
  ],
  ['date', { name: 'a date such as 2026-07-28', fits: isDate }],
  [
    'date-time',
    {
      name: 'a time such as 2026-07-28T12:00:00Z',
      fits: (value) =>
        /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/.test(value) &&
        isDate(value.slice(0, 10)) &&
        !Number.isNaN(Date.parse(value)),
    },
  ],
]);

/** Whether the text is a date that exists in the calendar. "2026-02-30" has the right format but does not exist. */
function isDate(value: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(value)) return false;
  const date = new Date(`${value}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(value);
}
