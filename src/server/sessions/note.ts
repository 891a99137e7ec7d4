import type { JsonObject } from '../../json.ts';
import { sha256 } from '../../sha256.ts';
import type { Schema } from '../../store/kit/collection.ts';
import { type Row, readRow } from './row.ts';

/**
 * Says that a session is to be looked at, under a key that sorts by when: lists come in this order. It names the session. Where
 * the end of one could not be told whose place another may take, it has the row itself, and until when to try.
 */
export type Note = { readonly id: string } | { readonly over: Row; readonly until: number };

/** How notes are stored. In version 1, the id of a session stood there alone. */
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

/** The time that a key was made for, in milliseconds since 1970. */
export function timeOf(key: string): number {
  return Number(key.split('/')[0]) * 1000;
}

/** No two notes for one second have the same key, unless they are about the same session. */
export function noteKey(note: Note, at: number): string {
  const whose = 'id' in note ? note.id : JSON.stringify([note.over.id, note.over.created]);
  return `${String(Math.ceil(at / 1000)).padStart(12, '0')}/${sha256(whose)}`;
}
