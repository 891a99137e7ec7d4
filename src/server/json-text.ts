import { ValiseError } from '../core/errors.ts';
import { MAX_DEPTH } from '../wire/index.ts';

/** The part of a value that would be lost, and the path to it, last step first. */
interface Fault {
  readonly what: string;
  readonly steps: string[];
}

/**
 * Returns a value as JSON that preserves all of it. Throws an error with the path to any part that JSON would lose.
 *
 * Properties that are undefined are left out, as in JSON. `reader` says that a schema restores the value from the JSON, so that
 * values with a `toJSON`, such as dates, are accepted too.
 */
export function jsonText(subject: string, value: unknown, reader = false): string {
  const fault = read(() => faultIn(value, MAX_DEPTH, reader));
  if (fault) throw notJson(subject, fault);
  const text = read(() => JSON.stringify(value)) as string;
  // `null` would delete the value.
  if (text === 'null') throw notJson(subject, { what: 'null', steps: [] });
  return text;

  /** Reads a value, which may run the author's code. */
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
  // The contents of a map, a set, bytes or an error are not in its properties.
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
    'invalid-argument',
    `${subject} is not JSON: ${path === '' ? 'it' : path} is ${what}.`,
    {
      next: `Set text, finite numbers, booleans, and arrays and plain objects of them, at most ${MAX_DEPTH} levels deep.`,
      ...(cause !== undefined && { cause }),
    },
  );
}
