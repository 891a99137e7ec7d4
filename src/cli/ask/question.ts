import type { PendingQuestion } from '../../client/index.ts';
import { type Field, fieldsOf } from './field.ts';

/** What a question says to people. */
export function wordsOf({ method, params }: PendingQuestion): string {
  return String(params?.['message'] ?? method);
}

/** How the fields of a question are answered with `--answer`. */
export function answersTo({ params }: PendingQuestion): readonly Field[] {
  return fieldsOf(params?.['requestedSchema']);
}

const KINDS = { string: 'TEXT', number: 'NUMBER', integer: 'NUMBER', boolean: 'yes|no', array: 'TEXT,…' };

/** A field as `--answer` takes it, e.g. `resolution=Fixed|Duplicate`; in brackets where it may be left out. */
export function patternOf({ name, type, choices, required }: Field): string {
  const values = choices?.map(({ value }) => value).join('|');
  const pattern = `${name}=${values === undefined ? KINDS[type] : type === 'array' ? `${values},…` : values}`;
  return required ? pattern : `[${pattern}]`;
}
