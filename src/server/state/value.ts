import { ValiseError } from '../../errors.ts';
import type { Json } from '../../json.ts';
import { isShallow, MAX_DEPTH } from '../../wire/index.ts';

/** Every client that keeps state should take this many bytes of name and value; more may be refused. */
export const SAFE_BYTES = 4096;

/** More is an error: all of it would travel with every request. */
const MAX_BYTES = 65_536;

/**
 * The value as it will come back: JSON and nothing else. A copy, so that what the author changes later is not sent
 * by accident.
 */
export function snapshot(name: string, value: unknown): Json {
  const text = isShallow(value) ? print(value) : undefined;
  // A number that JSON does not have prints as null, which would delete.
  if (text === undefined || (text === 'null' && value !== null)) {
    throw new ValiseError('bad-state-value', `The value for state ${JSON.stringify(name)} is not JSON.`, {
      next: `Set text, finite numbers, booleans, and arrays and plain objects of them, at most ${MAX_DEPTH} levels deep.`,
    });
  }
  const bytes = sizeOf(name, text);
  if (bytes > MAX_BYTES) {
    throw new ValiseError(
      'state-too-large',
      `State ${JSON.stringify(name.slice(0, 80))} would take ${bytes} bytes; ${MAX_BYTES} is the most, and ${SAFE_BYTES} what every client takes.`,
      { next: 'Keep what is large in a database of your own, and its id in the state.' },
    );
  }
  return JSON.parse(text) as Json;
}

/** Bytes of a name and a value's text. */
export function sizeOf(name: string, text: string): number {
  return Buffer.byteLength(name) + Buffer.byteLength(text);
}

function print(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}
