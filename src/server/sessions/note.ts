import type { JsonObject } from '../../json.ts';
import { sha256 } from '../../sha256.ts';
import type { Schema } from '../../store/kit/collection.ts';
import { type Row, readRow } from './row.ts';

/**
 * A note to check a session, under a key that sorts by time, since lists come in this order.
 *
 * It names the session. If `onEnd` could not be called for a session whose place another may take, the note holds the record
 * itself and until when to try.
 */
export type Note = { readonly id: string } | { readonly over: Row; readonly until: number };

/** How notes are stored. In version 1, the value was the id of a session alone. */
export const NOTES: Schema<Note> = {
  kind: 'session deadline',
  version: 2,
  migrate: (value) => (typeof value === 'string' ? { id: value } : value),
  read({ id, over, until }) {
    if (typeof id === 'string') return { id };
    const row = readRow(over);
    return row && typeof until === 'number' ? { over: row, until } : undefined;
  },
  write: (note) => note as unknown as JsonObject,
};

/** Returns the time that a key was made for, in milliseconds since 1970. */
export function timeOf(key: string): number {
  return Number(key.split('/')[0]) * 1000;
}

/** Returns the key of a note. Two notes for one second have the same key only if they are about the same session. */
export function noteKey(note: Note, at: number): string {
  const whose = 'id' in note ? note.id : JSON.stringify([note.over.id, note.over.created]);
  return `${String(Math.ceil(at / 1000)).padStart(12, '0')}/${sha256(whose)}`;
}
