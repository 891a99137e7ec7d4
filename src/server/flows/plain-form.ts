import { isObject, type JsonObject } from '../../json.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A field, and whether it may be left out. */
interface Field {
  readonly field: JsonObject;
  readonly isOptional?: boolean;
}

/**
 * Returns the form of an object schema of zod 3 (`_def`) or valibot (`entries`), which do not describe themselves.
 *
 * Of the checks it keeps only bounds, formats and descriptions; the library itself checks the answer. Returns undefined for
 * others.
 */
export function plainForm(schema: object): JsonObject | undefined {
  const { _def, type, entries } = schema as Fields;
  const [fields, read] =
    isObject(_def) && typeof _def['shape'] === 'function'
      ? [(_def['shape'] as () => unknown)(), ofZod]
      : type === 'object'
        ? [entries, ofValibot]
        : [undefined, ofZod];
  if (!isObject(fields)) return undefined;
  const properties: Record<string, JsonObject> = {};
  const required: string[] = [];
  for (const [name, each] of Object.entries(fields)) {
    const found = read(each);
    if (!found) return undefined;
    properties[name] = found.field;
    if (!found.isOptional) required.push(name);
  }
  return { type: 'object', properties, required };
}

function ofZod(schema: unknown): Field | undefined {
  const def = isObject(schema) && isObject(schema['_def']) ? schema['_def'] : undefined;
  const described = typeof def?.['description'] === 'string' ? { description: def['description'] } : {};
  const inner = (): Field | undefined => ofZod(def?.['innerType'] ?? def?.['schema']);
  const made = (): Field | undefined => {
    switch (def?.['typeName']) {
      case 'ZodString':
        return { field: { type: 'string', ...zodChecks(def, 'Length') } };
      case 'ZodNumber':
        return { field: { type: 'number', ...zodChecks(def, 'imum') } };
      case 'ZodBoolean':
        return { field: { type: 'boolean' } };
      case 'ZodEnum':
        return { field: { type: 'string', enum: def['values'] as string[] } };
      case 'ZodLiteral':
        return typeof def['value'] === 'string'
          ? { field: { type: 'string', enum: [def['value']] } }
          : undefined;
      case 'ZodArray': {
        const items = ofZod(def['type'])?.field;
        return items && { field: { type: 'array', items } };
      }
      case 'ZodOptional': {
        const found = inner();
        return found && { ...found, isOptional: true };
      }
      case 'ZodDefault': {
        const found = inner();
        const value = (def['defaultValue'] as () => string | number | boolean)();
        return found && { field: { ...found.field, default: value }, isOptional: true };
      }
      case 'ZodEffects':
        return inner();
      default:
        return undefined;
    }
  };
  const found = made();
  return found && { ...found, field: { ...found.field, ...described } };
}

/** Returns `minLength` and `maxLength`, or `minimum` and `maximum`, and the format or the integer type. */
function zodChecks(def: Fields, ending: 'Length' | 'imum'): JsonObject {
  const out: Record<string, string | number> = {};
  for (const check of Array.isArray(def['checks']) ? (def['checks'] as Fields[]) : []) {
    const { kind, value } = check;
    if ((kind === 'min' || kind === 'max') && typeof value === 'number') out[`${kind}${ending}`] = value;
    else if (kind === 'int') out['type'] = 'integer';
    else if (kind === 'url') out['format'] = 'uri';
    else if (kind === 'datetime') out['format'] = 'date-time';
    else if (kind === 'email' || kind === 'date') out['format'] = kind;
  }
  return out;
}

const VALIBOT: Readonly<Record<string, readonly [name: string, value?: string]>> = {
  email: ['format', 'email'],
  url: ['format', 'uri'],
  iso_date: ['format', 'date'],
  iso_timestamp: ['format', 'date-time'],
  integer: ['type', 'integer'],
  min_length: ['minLength'],
  max_length: ['maxLength'],
  min_value: ['minimum'],
  max_value: ['maximum'],
  description: ['description'],
  title: ['title'],
};

function ofValibot(schema: unknown): Field | undefined {
  if (!isObject(schema)) return undefined;
  const actions: JsonObject = Object.fromEntries(
    (Array.isArray(schema['pipe']) ? (schema['pipe'] as Fields[]) : []).flatMap((action) => {
      const [name, value] = VALIBOT[String(action['type'])] ?? [];
      const given = value ?? action['requirement'] ?? action['description'] ?? action['title'];
      return name !== undefined && (typeof given === 'string' || typeof given === 'number')
        ? [[name, given]]
        : [];
    }),
  );
  switch (schema['type']) {
    case 'string':
    case 'number':
    case 'boolean':
      return { field: { type: schema['type'], ...actions } };
    case 'picklist':
      return { field: { type: 'string', enum: schema['options'] as string[], ...actions } };
    case 'literal':
      return typeof schema['literal'] === 'string'
        ? { field: { type: 'string', enum: [schema['literal']], ...actions } }
        : undefined;
    case 'array': {
      const items = ofValibot(schema['item'])?.field;
      return items && { field: { type: 'array', items, ...actions } };
    }
    case 'optional': {
      const found = ofValibot(schema['wrapped']);
      const value = schema['default'];
      const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
      return found && { field: { ...found.field, ...(isPlain && { default: value }) }, isOptional: true };
    }
    default:
      return undefined;
  }
}
