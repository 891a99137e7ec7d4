import { ValiseError } from '../core/errors.ts';

/** The maximum nesting depth: deeper than any real request, and far from a stack overflow. */
const DEEPEST = 200;

/**
 * Writes a JSON value in a canonical form: keys sorted by code units, no spaces, otherwise as `JSON.stringify` writes
 * it (RFC 8785 for all values that JSON can hold). Throws for values that JSON cannot represent instead of omitting
 * them, because two different values must never have the same canonical form.
 */
export function canonicalJson(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : write(value, 0);
}

function write(value: unknown, depth: number): string {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return JSON.stringify(value);
    case 'number':
      if (Number.isFinite(value)) return JSON.stringify(value);
      break;
    case 'object':
      if (value === null) return 'null';
      if (depth === DEEPEST) throw refusal(`is nested deeper than ${DEEPEST} levels`);
      if (Array.isArray(value)) return writeArray(value, depth + 1);
      if (isPlain(value)) return writeObject(value, depth + 1);
      if ('toJSON' in value && typeof value.toJSON === 'function') return write(value.toJSON(''), depth + 1);
  }
  throw refusal('holds something that JSON cannot write');
}

function writeArray(list: readonly unknown[], depth: number): string {
  let text = '[';
  for (let index = 0; index < list.length; index++) {
    if (index > 0) text += ',';
    text += write(list[index], depth);
  }
  return `${text}]`;
}

function writeObject(object: Readonly<Record<string, unknown>>, depth: number): string {
  let text = '';
  for (const key of Object.keys(object).sort()) {
    const value = object[key];
    // A property whose value is undefined equals an absent one, for JSON and for optional arguments.
    if (value === undefined) continue;
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${write(value, depth)}`;
  }
  return `{${text}}`;
}

function isPlain(value: object): value is Record<string, unknown> {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
}

function refusal(what: string): ValiseError {
  return new ValiseError('invalid-argument', `The value to bind to ${what}.`, {
    next: 'Bind to a plain JSON value.',
  });
}
