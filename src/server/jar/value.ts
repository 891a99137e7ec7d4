import { ValiseError } from '../../errors.ts';
import type { Json } from '../../json.ts';
import { jsonText } from '../json-text.ts';

/** The bytes of name and value that every client that stores state should accept. It may refuse more. */
export const SAFE_BYTES = 4096;

/** The maximum size of a value, since all of it would travel with every request. */
const MAX_BYTES = 65_536;

/**
 * Returns a copy of the value as it will be read back: plain JSON.
 *
 * Later changes that the author makes to the original are not sent. `reader` says that a schema reads what comes back.
 */
export function snapshot(name: string, value: unknown, reader: boolean): Json {
  const text = jsonText(`The value for state ${JSON.stringify(name)}`, value, reader);
  const bytes = sizeOf(name, text);
  if (bytes > MAX_BYTES) {
    throw new ValiseError(
      'too-large',
      `State ${JSON.stringify(name.slice(0, 80))} would take ${bytes} bytes; ${MAX_BYTES} is the most, and ${SAFE_BYTES} what every client takes.`,
      { next: 'Keep what is large in a database of your own, and its id in the state.' },
    );
  }
  return JSON.parse(text) as Json;
}

/** Returns a copy, so that changes that the author makes to it are neither stored nor sent by accident. */
export function copyOf(value: Json): Json {
  return typeof value === 'object' ? structuredClone(value) : value;
}

/** Returns a copy of an unsealed value from the client, or undefined if it is larger than any value that can be set. */
export function brought(name: string, value: Json): Json | undefined {
  const text = JSON.stringify(value);
  if (sizeOf(name, text) > MAX_BYTES) return undefined;
  return typeof value === 'object' ? (JSON.parse(text) as Json) : value;
}

/** Returns the bytes of a name and a value's text. */
export function sizeOf(name: string, text: string): number {
  return Buffer.byteLength(name) + Buffer.byteLength(text);
}
