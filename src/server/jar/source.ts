import type { Json } from '../../json.ts';
import type { Key } from './key.ts';

/** The state that a request came with, in one scope: from the client, or from the server's store. */
export interface Source {
  /** Returns the names that exist, whether or not their values can be read. */
  names(): Iterable<string>;
  /** Returns a new copy of the value, or undefined if there is none or it cannot be read (which is reported). */
  read(name: string, key: Key): Json | undefined;
  /** Throws if nothing that is set could be stored. */
  checkWritable(): void;
}

/** A handler's change to a name: the value that it set, or null if it deleted it. */
export type Change = { readonly json: Json } | null;

/** The changes of one scope, by name. */
export type Changes = ReadonlyMap<string, Change>;

/** Reports that a value that came back was refused. */
export type Report = (name: string, reason: string) => void;
