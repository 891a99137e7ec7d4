import { isObject } from 'mcp-valise/internal';

/** One property of a question's schema, restricted to the types that elicitation allows. */
export interface Field {
  readonly name: string;
  readonly title: string;
  readonly description: string | undefined;
  readonly required: boolean;
  readonly type: 'string' | 'number' | 'integer' | 'boolean' | 'array';
  /** The options, if the field is a choice. */
  readonly choices: readonly { readonly value: string; readonly label: string }[] | undefined;
  readonly secret: boolean;
  readonly initial: unknown;
  readonly schema: Readonly<Record<string, unknown>>;
}

const TYPES = new Set(['string', 'number', 'integer', 'boolean', 'array']);

/** Returns the fields of a `requestedSchema`, in schema order. */
export function fieldsOf(requested: unknown): Field[] {
  if (!isObject(requested) || !isObject(requested['properties'])) return [];
  const required = Array.isArray(requested['required']) ? requested['required'] : [];
  return Object.entries(requested['properties']).flatMap(([name, schema]) => {
    if (!isObject(schema)) return [];
    const type = TYPES.has(String(schema['type'])) ? (schema['type'] as Field['type']) : 'string';
    return {
      name,
      title: typeof schema['title'] === 'string' ? schema['title'] : name,
      description: typeof schema['description'] === 'string' ? schema['description'] : undefined,
      required: required.includes(name),
      type,
      choices: choicesOf(type === 'array' && isObject(schema['items']) ? schema['items'] : schema),
      secret: schema['format'] === 'password' || schema['writeOnly'] === true,
      initial: schema['default'],
      schema,
    };
  });
}

/** Reads choices in every notation that the protocol has used so far. */
function choicesOf(schema: Readonly<Record<string, unknown>>): Field['choices'] {
  const titled = [schema['oneOf'], schema['anyOf']].find(Array.isArray);
  if (titled) {
    return titled
      .filter(isObject)
      .map((each) => ({ value: String(each['const']), label: String(each['title'] ?? each['const']) }));
  }
  if (!Array.isArray(schema['enum'])) return undefined;
  const names = Array.isArray(schema['enumNames']) ? schema['enumNames'] : [];
  return schema['enum'].map((value, at) => ({ value: String(value), label: String(names[at] ?? value) }));
}

/** Converts typed text to the field's type; returns a `problem` sentence if it does not fit. */
export function readValue(
  field: Field,
  text: string,
): { readonly value: unknown } | { readonly problem: string } {
  switch (field.type) {
    case 'boolean':
      if (/^(true|yes|y|1)$/i.test(text)) return { value: true };
      return /^(false|no|n|0)$/i.test(text) ? { value: false } : { problem: 'Write yes or no.' };
    case 'number':
    case 'integer':
      return readNumber(field, text);
    case 'array': {
      const parts = text
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '');
      const problem = parts.map((part) => choiceProblem(field, part)).find((each) => each !== undefined);
      return problem === undefined ? { value: parts } : { problem };
    }
    case 'string': {
      const problem = choiceProblem(field, text) ?? textProblem(field, text);
      return problem === undefined ? { value: text } : { problem };
    }
  }
}

function readNumber(
  { type, schema }: Field,
  text: string,
): { readonly value: unknown } | { readonly problem: string } {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) return { problem: 'Write a number.' };
  if (type === 'integer' && !Number.isInteger(value)) return { problem: 'Write a whole number.' };
  if (typeof schema['minimum'] === 'number' && value < schema['minimum'])
    return { problem: `At least ${schema['minimum']}.` };
  if (typeof schema['maximum'] === 'number' && value > schema['maximum'])
    return { problem: `At most ${schema['maximum']}.` };
  return { value };
}

function choiceProblem({ choices }: Field, text: string): string | undefined {
  if (!choices || choices.some(({ value }) => value === text)) return undefined;
  return `Choose one of: ${choices.map(({ value }) => value).join(', ')}.`;
}

const FORMATS: Readonly<Record<string, readonly [(text: string) => boolean, string]>> = {
  email: [(text) => /^[^\s@]+@[^\s@]+$/.test(text), 'Write an e-mail address.'],
  uri: [(text) => URL.canParse(text), 'Write a URL.'],
  date: [
    (text) => /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)),
    'Write a date, e.g. 2026-11-15.',
  ],
  'date-time': [
    (text) => /^\d{4}-\d{2}-\d{2}T/.test(text) && !Number.isNaN(Date.parse(text)),
    'Write a date and time, e.g. 2026-11-15T22:30:00Z.',
  ],
};

function textProblem({ schema }: Field, text: string): string | undefined {
  if (typeof schema['minLength'] === 'number' && text.length < schema['minLength'])
    return `At least ${schema['minLength']} characters.`;
  if (typeof schema['maxLength'] === 'number' && text.length > schema['maxLength'])
    return `At most ${schema['maxLength']} characters.`;
  const [fits, problem] = FORMATS[String(schema['format'])] ?? [];
  return fits && !fits(text) ? problem : undefined;
}
