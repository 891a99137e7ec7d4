import { isObject } from '../../json.ts';
import { ATTRIBUTE_RULES, MAX_DEPTH, MAX_NAMES, type StateProblem } from '../../wire/index.ts';

/** Describes what was wrong with state, the limit it exceeded, and what was received. Never includes text from the server. */
export function detailOf(problem: StateProblem, meta: unknown): string {
  const { where } = problem;
  if (problem.problem === 'too-deep') return `It is nested deeper than ${MAX_DEPTH} levels, in ${where}.`;
  const came = valueAt(problem, meta);
  if (problem.problem === 'too-many')
    return `${Object.keys(came ?? {}).length} names came in ${where}; ${MAX_NAMES} are allowed.`;
  const attribute = where.slice(where.lastIndexOf('.') + 1);
  const rule = ATTRIBUTE_RULES[attribute];
  return rule === undefined
    ? `${attribute === 'attributes' ? 'Its attributes' : where} must be an object; ${described(came)} came.`
    : `Its ${attribute} must be ${rule}; ${described(came)} came.`;
}

/** The longest name that is shown in full. Stored names are limited by the quota for a key. */
const MAX_TOLD = 1024;

/** Truncates a name for display, because a server may send one of any length. */
export function told(name: string): string {
  return name.length > MAX_TOLD ? `${name.slice(0, MAX_TOLD)}…` : name;
}

/** Returns the value at the location of a problem: a key of `_meta`, the scope in it, and an attribute of a name in that. */
function valueAt({ where, name }: StateProblem, meta: unknown): unknown {
  const holder = isObject(meta) ? meta : {};
  const keys = Object.keys(holder).filter((each) => where === each || where.startsWith(`${each}.`));
  const key = keys.reduce((longest, each) => (each.length > longest.length ? each : longest), '');
  const [scope, attribute] = where.slice(key.length + 1).split('.');
  const path = [key, scope, attribute && name, attribute === 'attributes' ? '' : attribute];
  let value: unknown = holder;
  for (const step of path) if (step) value = isObject(value) ? value[step] : undefined;
  return value;
}

function described(value: unknown): string {
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string') return `a text of ${value.length} characters`;
  if (Array.isArray(value)) return 'a list';
  return value === null ? 'null' : `something of type ${typeof value}`;
}
