import { ValiseError } from '../../errors.ts';
import type { Json } from '../../json.ts';
import { jsonText } from '../json-text.ts';

/** Every client that keeps state should take this many bytes of name and value; more may be refused. */
export const SAFE_BYTES = 4096;

/** More is an error: all of it would travel with every request. */
const MAX_BYTES = 65_536;

/**
 * The value as it will come back: JSON and nothing else. A copy, so that what the author changes later is not sent
 * by accident. `reader` says that a schema reads what comes back.
 */
export function snapshot(name: string, value: unknown, reader: boolean): Json {
  const text = jsonText(`The value for state ${JSON.stringify(name)}`, value, reader);
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

/** A copy of its own: what the author does to it must neither be kept nor be sent by accident. */
export function copyOf(value: Json): Json {
  return typeof value === 'object' ? structuredClone(value) : value;
}

/** What a client brings that nobody has sealed, as a copy; undefined where it is more than can have been set. */
export function brought(name: string, value: Json): Json | undefined {
  const text = JSON.stringify(value);
  if (sizeOf(name, text) > MAX_BYTES) return undefined;
  return typeof value === 'object' ? (JSON.parse(text) as Json) : value;
}

/** Bytes of a name and a value's text. */
export function sizeOf(name: string, text: string): number {
  return Buffer.byteLength(name) + Buffer.byteLength(text);
}
