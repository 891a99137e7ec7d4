import { isObject, type Json } from '../../json.ts';
import { sha256 } from '../../sha256.ts';
import { type Row, readRow, rowJson } from './row.ts';

/**
 * Says that a session is to be looked at, under a key that sorts by when: lists come in this order. It names the session. Where
 * the end of one could not be told whose place another may take, it has the row itself, and until when to try.
 */
export type Note = string | { readonly over: Row; readonly until: number };

/** The time that a key was made for, in milliseconds since 1970. */
export function timeOf(key: string): number {
  return Number(key.split('/')[1]) * 1000;
}

/** No two notes for one second have the same key, unless they are about the same session. */
export function noteKey(note: Note, at: number): string {
  const whose = typeof note === 'string' ? note : JSON.stringify([note.over.id, note.over.created]);
  return `due/${String(Math.ceil(at / 1000)).padStart(12, '0')}/${sha256(whose)}`;
}

export function noteJson(note: Note): Json {
  return typeof note === 'string' ? note : { over: rowJson(note.over), until: note.until };
}

/** Reads a note; undefined for what is none. */
export function readNote(value: unknown): Note | undefined {
  if (typeof value === 'string') return value;
  if (!isObject(value) || typeof value['until'] !== 'number') return undefined;
  const over = readRow(value['over']);
  return over && { over, until: value['until'] };
}
