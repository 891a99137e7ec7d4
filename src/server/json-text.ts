import { ValiseError } from '../errors.ts';
import { MAX_DEPTH } from '../wire/index.ts';

/** What would not come back, and the steps to where it is, the last one first. */
interface Fault {
  readonly what: string;
  readonly steps: string[];
}

/**
 * A value as JSON, which gives back all of it; an error that names the place where it would not. Properties that are
 * undefined are left out, as JSON leaves them out. `reader` says that a schema makes of the JSON whatever it was, so that
 * what has a `toJSON`, such as a date, is taken too.
 */
export function jsonText(subject: string, value: unknown, reader = false): string {
  const fault = read(() => faultIn(value, MAX_DEPTH, reader));
  if (fault) throw notJson(subject, fault);
  const text = read(() => JSON.stringify(value)) as string;
  // It would delete.
  if (text === 'null') throw notJson(subject, { what: 'null', steps: [] });
  return text;

  /** Looking at a value may run code of its author's. */
  function read<Result>(look: () => Result): Result {
    try {
      return look();
    } catch (error) {
      throw notJson(subject, { what: 'something that cannot be read', steps: [] }, error);
    }
  }
}

function faultIn(value: unknown, levels: number, reader: boolean): Fault | undefined {
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return undefined;
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : fault(String(value));
  if (typeof value !== 'object') return fault(value === undefined ? 'undefined' : `a ${typeof value}`);
  if (levels === 0) return fault(`nested deeper than ${MAX_DEPTH} levels`);
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) {
      const found = faultIn(value[at], levels - 1, reader);
      if (found) return within(found, `[${at}]`);
    }
    return undefined;
  }
  if ('toJSON' in value && typeof value.toJSON === 'function') {
    const printed: unknown = reader ? value.toJSON('') : undefined;
    return printed === undefined || printed === null
      ? fault(kindOf(value))
      : faultIn(printed, levels - 1, reader);
  }
  // A map, a set, bytes, an error: what they hold is not in their properties.
  if (Object.prototype.toString.call(value) !== '[object Object]') return fault(kindOf(value));
  for (const name of Object.keys(value)) {
    const item = (value as Readonly<Record<string, unknown>>)[name];
    const found = item === undefined ? undefined : faultIn(item, levels - 1, reader);
    if (found)
      return within(
        found,
        /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`,
      );
  }
  return undefined;
}

function fault(what: string): Fault {
  return { what, steps: [] };
}

function within(found: Fault, step: string): Fault {
  found.steps.push(step);
  return found;
}

function kindOf(value: object): string {
  return `an object of type ${value.constructor?.name ?? 'unknown'}`;
}

function notJson(subject: string, { what, steps }: Fault, cause?: unknown): ValiseError {
  const path = steps.reverse().join('').replace(/^\./, '').slice(0, 200);
  return new ValiseError(
    'bad-state-value',
    `${subject} is not JSON: ${path === '' ? 'it' : path} is ${what}.`,
    {
      next: `Set text, finite numbers, booleans, and arrays and plain objects of them, at most ${MAX_DEPTH} levels deep.`,
      ...(cause !== undefined && { cause }),
    },
  );
}
